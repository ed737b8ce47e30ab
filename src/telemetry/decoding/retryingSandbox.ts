import type { DecodeRequest, DecodeResult, Sandbox } from '../../codec';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { sleep } from '../../kernel/sleep';

/** Dependencies of RetryingSandbox. */
interface RetryingSandboxOptions {
  readonly sandbox: Pick<Sandbox, 'decode'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** The retry interval while the sandbox is unavailable, milliseconds. */
  readonly retryMs: number;
}

const MAX_RETRY_MS = 10_000;

/**
 * Runs decoders, and retries for up to 10 s while the queue of the sandbox is full or it has no workers. It does not
 * retry at all once the sandbox has been unavailable for 10 s.
 */
export class RetryingSandbox {
  private readonly stopping = new AbortController();
  /** The start of the current or last period without a sandbox, on the monotonic clock. Set before it is read. */
  private unavailableSince = 0;
  /** When the sandbox last refused a run, on the monotonic clock; -Infinity after a successful run. */
  private lastRefusedAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: RetryingSandboxOptions) {}

  /**
   * Runs a decoder, and repeats a refused run after `retryMs`. Returns the DomainError of the last attempt
   * (`codec_queue_full`, `codec_unavailable`) when this call has lasted 10 s, or when the sandbox has been unavailable
   * for 10 s, even if this call came later: otherwise each queued uplink would wait another 10 s. Throws
   * `shutting_down`.
   */
  async decode(request: DecodeRequest): Promise<DecodeResult | DomainError> {
    const { clock, retryMs } = this.options;
    const startedAt = clock.monotonic();
    for (;;) {
      const result = await this.runOnce(request);
      if (!(result instanceof DomainError)) return result;
      const waitingSince = Math.min(startedAt, this.unavailableSince);
      if (clock.monotonic() - waitingSince >= MAX_RETRY_MS) return result;
      await this.pause(retryMs);
    }
  }

  /** Waits `ms` milliseconds. Throws `shutting_down`: the sender delivers the uplink again after the restart. */
  async pause(ms: number): Promise<void> {
    const { signal } = this.stopping;
    await sleep(ms, signal);
    signal.throwIfAborted();
  }

  /** Makes every current and later pause fail with `shutting_down`. Called when the server shuts down. */
  stop(): void {
    this.stopping.abort(
      new DomainError('unavailable', 'shutting_down', 'the server is shutting down: send the uplink again later'),
    );
  }

  /** Runs a decoder once. Returns the error if the sandbox refused the run; throws all other errors. */
  private async runOnce(request: DecodeRequest): Promise<DecodeResult | DomainError> {
    try {
      const result = await this.options.sandbox.decode(request);
      this.lastRefusedAt = Number.NEGATIVE_INFINITY;
      return result;
    } catch (error) {
      if (!(error instanceof DomainError) || !['codec_queue_full', 'codec_unavailable'].includes(error.reason))
        throw error;
      this.markUnavailable();
      return error;
    }
  }

  /**
   * Records that the sandbox refused a run. The period without a sandbox starts now, unless another run was refused
   * within the last 10 s and none succeeded in between: then that period continues.
   */
  private markUnavailable(): void {
    const now = this.options.clock.monotonic();
    if (this.lastRefusedAt < now - MAX_RETRY_MS) this.unavailableSince = now;
    this.lastRefusedAt = now;
  }
}
