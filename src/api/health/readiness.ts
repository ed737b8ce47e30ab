import { shareCall } from '../../kernel/withTimeout';

/** Whether the server is ready to serve calls, or the reason why not. */
export type ReadyState = 'starting' | 'ready' | 'stopping' | 'database_unavailable';

/** Dependencies and settings of Readiness. */
interface ReadinessOptions {
  /** Rejects while the database does not respond. */
  readonly pingDatabase: () => Promise<void>;
  /** Returns the features that do not work although the server is ready, as snake_case codes such as `storage_full`. */
  readonly degraded: () => readonly string[];
  /** The time after which a database ping counts as failed, in milliseconds. Default: 3000. */
  readonly pingTimeoutMs?: number;
  /** How long a ping result is valid, in milliseconds. Default: 1000. */
  readonly maxAgeMs?: number;
}

const NO_CHECKS: ReadinessOptions = { pingDatabase: async () => {}, degraded: () => [] };

/** Determines whether the server is ready. It pings the database at most once a second, for any number of callers. */
export class Readiness {
  private phase: 'starting' | 'serving' | 'stopping' = 'starting';
  private isDatabaseAvailable = true;
  private checkedAt = -Infinity;
  private pendingCheck: Promise<void> | undefined;
  /** Resolves with whether the database responds. */
  private readonly ping: () => Promise<boolean>;
  private readonly listeners = new Set<() => void>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: ReadinessOptions = NO_CHECKS) {
    const pingDatabase = async (): Promise<boolean> =>
      await options.pingDatabase().then(
        () => true,
        () => false,
      );
    this.ping = shareCall(options.pingTimeoutMs ?? 3000, pingDatabase, false);
  }

  /** Marks the start-up as complete. */
  markStarted(): void {
    if (this.phase === 'starting') this.phase = 'serving';
    this.notifyListeners();
  }

  /** Marks the server as stopping. */
  markStopping(): void {
    this.phase = 'stopping';
    this.notifyListeners();
  }

  /** The state at the last check. */
  get lastState(): ReadyState {
    if (this.phase !== 'serving') return this.phase;
    return this.isDatabaseAvailable ? 'ready' : 'database_unavailable';
  }

  /** Returns the current state, not older than `maxAgeMs`. Never rejects. */
  async getState(): Promise<ReadyState> {
    const { maxAgeMs = 1000 } = this.options;
    if (this.phase === 'serving' && performance.now() - this.checkedAt >= maxAgeMs)
      await (this.pendingCheck ??= this.pingAndNotify());
    return this.lastState;
  }

  /** The features that do not work, as snake_case codes. */
  get degradedFeatures(): readonly string[] {
    return this.options.degraded();
  }

  /** Calls `listener` at each change; the state is then checked every second. Returns a function that stops this. */
  watch(listener: () => void): () => void {
    this.listeners.add(listener);
    this.timer ??= setInterval(() => void this.getState(), this.options.maxAgeMs ?? 1000).unref();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  /** Pings the database, stores the result, and notifies the listeners if the state has changed. */
  private async pingAndNotify(): Promise<void> {
    const stateBefore = this.lastState;
    this.isDatabaseAvailable = await this.ping();
    this.checkedAt = performance.now();
    this.pendingCheck = undefined;
    if (this.lastState !== stateBefore) this.notifyListeners();
  }

  /** Tells the listeners that the state may have changed. */
  private notifyListeners(): void {
    for (const listener of this.listeners) listener();
  }
}
