/** Defines globals as a script would: it may redeclare, replace and delete them. */
export function define(globals: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(globals))
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}
