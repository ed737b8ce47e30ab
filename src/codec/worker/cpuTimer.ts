import { getWallClockLimitMs, type RunLimits } from '../runLimits';

/** Why a script's time is over: it used its CPU time, or the machine gave it too little. */
export type StopCause = 'script' | 'machine';

/**
 * Measures how long a script runs. The limit applies to the CPU time of the thread, so that a busy machine does not
 * fail a valid script. The wall clock also stops it, shortly before the main thread would terminate the thread.
 */
export class CpuTimer {
  private readonly cpuAtStart = process.threadCpuUsage();
  private readonly wallAtStart = performance.now();
  private stopCause: StopCause | undefined;
  private graceEndCpuMs = 0;

  /** `loadCpuMs`: CPU time that counts as used: that of loading the script, if it is loaded from a snapshot. */
  constructor(
    private readonly limits: RunLimits,
    private readonly loadCpuMs = 0,
  ) {}

  /** Whether the script must stop. Once true, it stays true, except for the time that `grantGrace` adds. */
  shouldStop(): boolean {
    this.stopCause ??= this.findStopCause();
    return this.stopCause !== undefined && this.getCpuMs() >= this.graceEndCpuMs;
  }

  /** Why the script was stopped; undefined: it was not. */
  get stoppedBy(): StopCause | undefined {
    return this.stopCause;
  }

  /**
   * Lets the guest compute for this long from now, even after the script's time is over, so that it can report the
   * error position.
   */
  grantGrace(ms: number): void {
    this.graceEndCpuMs = this.getCpuMs() + ms;
  }

  /** Returns the CPU time so far, in milliseconds. */
  getCpuMs(): number {
    const { user, system } = process.threadCpuUsage(this.cpuAtStart);
    return this.loadCpuMs + (user + system) / 1000; // from microseconds
  }

  /** Returns the wall-clock time since the start in milliseconds, with a fraction. */
  getElapsedMs(): number {
    return performance.now() - this.wallAtStart;
  }

  private findStopCause(): StopCause | undefined {
    if (this.getCpuMs() >= this.limits.timeoutMs) return 'script';
    return this.getElapsedMs() >= getWallClockLimitMs(this.limits) ? 'machine' : undefined;
  }
}
