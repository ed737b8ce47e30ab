const closings = new WeakMap<object, AbortSignal>();

/** Notes the signal that aborts when the client of a service closes. */
export function closesWith(service: object, closed: AbortSignal): void {
  closings.set(service, closed);
}

/** The signal of closesWith; undefined for what is no service of a client. */
export function closeOf(service: object): AbortSignal | undefined {
  return closings.get(service);
}
