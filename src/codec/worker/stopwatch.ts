/**
 * How long a script ran. The limit counts what the thread computed, so that a busy machine fails no good script; the wall clock
 * ends it too, a little before the main thread would end the whole thread.
 */
export class Stopwatch {
  private readonly cpuAtStart = process.threadCpuUsage();
  private readonly wallAtStart = performance.now();
  private over = false;
  private grace = 0;

  constructor(private readonly limits: { readonly scriptMs: number; readonly hardMs: number }) {}

  /** Whether the script must stop; once true, it stays true. */
  isOver(): boolean {
    this.over ||= this.cpuMs() >= this.limits.scriptMs || this.elapsedMs() >= 0.8 * this.limits.hardMs;
    return this.over && this.cpuMs() >= this.grace;
  }

  /** Whether the script was stopped. */
  get wasOver(): boolean {
    return this.over;
  }

  /** Lets the guest compute for so long from now, even if the script's time is over: to say where it was. */
  allow(ms: number): void {
    this.grace = this.cpuMs() + ms;
  }

  /** Wall-clock milliseconds, with a fraction. */
  elapsedMs(): number {
    return performance.now() - this.wallAtStart;
  }

  private cpuMs(): number {
    const { user, system } = process.threadCpuUsage(this.cpuAtStart);
    return (user + system) / 1000;
  }
}
