/** A call of the script's function that is ready to be made. */
export interface Call {
  /** Makes it. */
  run(): unknown;
  /** What came of it, of a promise what it was settled with, as the JSON text of a GuestResult. Every value of the script's is read once. */
  read(returned: unknown): string;
  /** The same when it was a promise that is never settled. */
  unsettled(): string;
}
