/** The time limits of a script, in milliseconds. */
export interface RunLimits {
  /**
   * The CPU time limit: at most 80 % of `hardTimeoutMs`, so that a script that computes all the time reaches this limit
   * first.
   */
  readonly timeoutMs: number;
  /** The wall-clock limit after which the thread of a script that could not be stopped is terminated. */
  readonly hardTimeoutMs: number;
}

/**
 * Returns the wall-clock limit in milliseconds after which a script is stopped, if it can be stopped: between the CPU
 * time limit and the limit that terminates its thread.
 */
export function getWallClockLimitMs({ hardTimeoutMs }: RunLimits): number {
  return Math.floor(0.9 * hardTimeoutMs);
}

/** The message for a script that did not receive its CPU time. */
export function formatBusyMessage(limits: RunLimits): string {
  return `the machine was too busy to give the script ${limits.timeoutMs} ms of CPU time within ${getWallClockLimitMs(limits)} ms: try again`;
}
