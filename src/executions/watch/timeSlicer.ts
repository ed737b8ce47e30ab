import type { Clock } from '../../kernel/clock';

const SLICE_MS = 5;

/**
 * Spreads the work of many callers over turns of the event loop. Each turn resumes callers one after another until 5 ms
 * have passed; then other work of the event loop runs. Only work after `acquire` without waiting for I/O is counted.
 */
export class TimeSlicer {
  private waiting: (() => void)[] = [];
  private isRunning = false;

  constructor(private readonly clock: Pick<Clock, 'monotonic'>) {}

  /** Resolves when the caller may work. Callers are resumed in order of arrival. */
  async acquire(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.waiting.push(resolve);
      if (this.isRunning) return;
      this.isRunning = true;
      this.startSlice();
    });
  }

  private startSlice(): void {
    setImmediate(() => this.resumeNext(this.clock.monotonic()));
  }

  /** Resumes the next caller, and continues when it has done all its work that needs no I/O. */
  private resumeNext(startedAt: number): void {
    this.waiting.shift()?.();
    // A tick that a microtask schedules runs after all microtasks, when the caller has done all work without I/O.
    queueMicrotask(() => process.nextTick(() => this.continueSlice(startedAt)));
  }

  /** Resumes the next caller in the same turn of the event loop, or in a later turn after 5 ms. */
  private continueSlice(startedAt: number): void {
    if (this.waiting.length === 0) this.isRunning = false;
    else if (this.clock.monotonic() - startedAt < SLICE_MS) this.resumeNext(startedAt);
    else this.startSlice();
  }
}
