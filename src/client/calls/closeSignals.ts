const closings = new WeakMap<object, AbortSignal>();

/** Registers the signal that aborts when the client of a service closes. */
export function registerCloseSignal(service: object, closed: AbortSignal): void {
  closings.set(service, closed);
}

/** Returns the signal of registerCloseSignal; undefined for an object that is not a service of a client. */
export function findCloseSignal(service: object): AbortSignal | undefined {
  return closings.get(service);
}
