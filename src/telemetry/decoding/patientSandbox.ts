import type { DecodeRequest, DecodeResult, Sandbox } from '../../codec';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { pause } from '../../kernel/pause';

/** What it needs. */
export interface PatientSandboxOptions {
  readonly sandbox: Pick<Sandbox, 'decode'>;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** How often a full sandbox is asked again, in milliseconds. */
  readonly retryMs: number;
}

const PATIENCE_MS = 10_000;

/** Runs decoders, and waits where the sandbox has no room or no threads: up to 10 s, but not at all once it has had none for so long. */
export class PatientSandbox {
  private readonly ending = new AbortController();
  private fullSince = 0;
  private lastFull = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: PatientSandboxOptions) {}

  /** Runs a decoder. A DomainError: there was no room (`sandbox_busy`, `sandbox_unavailable`). Throws `shutting_down`. */
  async decode(request: DecodeRequest): Promise<DecodeResult | DomainError> {
    const { clock, retryMs } = this.options;
    const began = clock.monotonic();
    for (;;) {
      const result = await this.tryOnce(request);
      if (!(result instanceof DomainError)) return result;
      if (clock.monotonic() - Math.min(began, this.fullSince) >= PATIENCE_MS) return result;
      await this.pause(retryMs);
    }
  }

  /** Resolves after so many milliseconds. Throws `shutting_down`: what was not decoded is left to come again. */
  async pause(ms: number): Promise<void> {
    const { signal } = this.ending;
    await pause(ms, signal);
    signal.throwIfAborted();
  }

  /** The server stops: whoever would have to wait is refused with `shutting_down`. */
  stop(): void {
    this.ending.abort(new DomainError('unavailable', 'shutting_down', 'the server is shutting down; send it again when it is back'));
  }

  private async tryOnce(request: DecodeRequest): Promise<DecodeResult | DomainError> {
    try {
      const result = await this.options.sandbox.decode(request);
      this.lastFull = Number.NEGATIVE_INFINITY;
      return result;
    } catch (error) {
      if (!(error instanceof DomainError) || !['sandbox_busy', 'sandbox_unavailable'].includes(error.reason)) throw error;
      this.isFull();
      return error;
    }
  }

  /** What was long ago says nothing of now. */
  private isFull(): void {
    const now = this.options.clock.monotonic();
    if (this.lastFull < now - PATIENCE_MS) this.fullSince = now;
    this.lastFull = now;
  }
}
