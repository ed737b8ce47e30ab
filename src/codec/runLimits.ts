/** How long a script may take, in milliseconds. */
export interface RunLimits {
  /** What it may compute; at most 80 % of `hardMs`, so that a script that computes all the time meets this limit first. */
  readonly scriptMs: number;
  /** When a script that could not be stopped loses its thread, by the wall clock. */
  readonly hardMs: number;
}

/** How long a script may take by the wall clock until it is stopped, if it can be. */
export function wallMs({ hardMs }: RunLimits): number {
  return Math.floor(0.9 * hardMs);
}

/** What is said of a script that was not given its time. */
export function tooBusy(limits: RunLimits): string {
  return `the machine was too busy to give the script ${limits.scriptMs} ms within ${wallMs(limits)} ms; try again`;
}
