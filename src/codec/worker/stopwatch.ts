import { wallMs, type RunLimits } from '../runLimits';

/** What ended a script's time: it computed too long, or the machine gave it too little time to. */
export type StoppedBy = 'script' | 'machine';

/**
 * How long a script ran. The limit counts what the thread computed, so that a busy machine fails no good script; the wall clock
 * ends it too, a little before the main thread would end the whole thread.
 */
export class Stopwatch {
  private readonly cpuAtStart = process.threadCpuUsage();
  private readonly wallAtStart = performance.now();
  private stop: StoppedBy | undefined;
  private grace = 0;

  constructor(private readonly limits: RunLimits) {}

  /** Whether the script must stop; once true, it stays true, but for what `allow` allows. */
  isOver(): boolean {
    this.stop ??= this.judge();
    return this.stop !== undefined && this.cpuMs() >= this.grace;
  }

  /** Why the script was stopped, if it was. */
  get stoppedBy(): StoppedBy | undefined {
    return this.stop;
  }

  /** Lets the guest compute for so long from now, even if the script's time is over: to say where it was. */
  allow(ms: number): void {
    this.grace = this.cpuMs() + ms;
  }

  /** Wall-clock milliseconds, with a fraction. */
  elapsedMs(): number {
    return performance.now() - this.wallAtStart;
  }

  private judge(): StoppedBy | undefined {
    if (this.cpuMs() >= this.limits.scriptMs) return 'script';
    return this.elapsedMs() >= wallMs(this.limits) ? 'machine' : undefined;
  }

  private cpuMs(): number {
    const { user, system } = process.threadCpuUsage(this.cpuAtStart);
    return (user + system) / 1000;
  }
}
