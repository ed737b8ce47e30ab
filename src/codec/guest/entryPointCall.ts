/** A prepared call of the script's function. */
export interface EntryPointCall {
  /** Calls the function. */
  run(): unknown;
  /**
   * Returns the JSON text of the GuestResult for what the function returned, or for the value of its promise. Reads
   * every value of the script once, because a getter or a Proxy can return another value each time.
   */
  read(returned: unknown): string;
  /** Returns the JSON text of the GuestResult for a promise that is never settled. */
  formatUnsettled(): string;
}
