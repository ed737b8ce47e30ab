/** Whether the server serves, and if not, why not. */
export type ReadyState = 'starting' | 'ready' | 'stopping' | 'database_unavailable';

/** What is asked of the rooms. */
export interface ReadinessOptions {
  /** Rejects while the database does not answer. */
  readonly ask: () => Promise<void>;
  /** What does not work although the server serves, as snake_case codes: `storage_full`. */
  readonly degraded: () => readonly string[];
  /** After which the database counts as away, in milliseconds; 3000 where nothing is said. */
  readonly limitMs?: number;
  /** How long an answer holds, in milliseconds; 1000 where nothing is said. */
  readonly keepMs?: number;
}

const EVERYTHING: ReadinessOptions = { ask: async () => {}, degraded: () => [] };

/** Knows whether the server serves. It asks the database at most once a second, however many ask it. */
export class Readiness {
  private phase: 'starting' | 'serving' | 'stopping' = 'starting';
  private answers = true;
  private askedAt = -Infinity;
  private asking: Promise<boolean> | undefined;
  private looking: Promise<void> | undefined;
  private readonly listeners = new Set<() => void>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: ReadinessOptions = EVERYTHING) {}

  /** From now on it serves. */
  serve(): void {
    if (this.phase === 'starting') this.phase = 'serving';
    this.tell();
  }

  /** From now on it does not. */
  stop(): void {
    this.phase = 'stopping';
    this.tell();
  }

  /** As it was when it was last looked at. */
  get last(): ReadyState {
    if (this.phase !== 'serving') return this.phase;
    return this.answers ? 'ready' : 'database_unavailable';
  }

  /** As it is, or was within the last second. Never rejects. */
  async state(): Promise<ReadyState> {
    const { keepMs = 1000 } = this.options;
    if (this.phase === 'serving' && performance.now() - this.askedAt >= keepMs) await (this.looking ??= this.look());
    return this.last;
  }

  /** What does not work although it serves. */
  get degraded(): readonly string[] {
    return this.options.degraded();
  }

  /** Calls `listener` at each change, for which it looks every second from now on; gives what ends that. */
  watch(listener: () => void): () => void {
    this.listeners.add(listener);
    this.timer ??= setInterval(() => void this.state(), this.options.keepMs ?? 1000).unref();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  private async look(): Promise<void> {
    const before = this.last;
    // One that hangs is not asked again: its end is waited for, each time as long as the limit.
    this.asking ??= this.options.ask().then(() => true, () => false).finally(() => (this.asking = undefined));
    this.answers = await withinLimit(this.asking, this.options.limitMs ?? 3000);
    this.askedAt = performance.now();
    this.looking = undefined;
    if (this.last !== before) this.tell();
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}

/** False: it has not answered by then. */
async function withinLimit(answer: Promise<boolean>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), limitMs)));
  const answered = await Promise.race([answer, late]);
  clearTimeout(timer);
  return answered;
}
