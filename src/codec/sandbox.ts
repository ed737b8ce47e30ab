import type { Logger } from '../kernel/logger';
import type { EncodeRequest, EncodeResult } from './codecRun';

/** How the sandbox runs scripts. */
export interface SandboxOptions {
  /** Threads that run scripts, 1 to 16. */
  readonly workers: number;
  /** How long a script may compute, in milliseconds. */
  readonly scriptMs: number;
  /** When a script that could not be stopped loses its thread, in milliseconds of the wall clock. */
  readonly hardMs: number;
  readonly log: Logger;
}

/** Runs encoders that nobody trusts, in threads of their own. */
export class Sandbox {
  constructor(private readonly options: SandboxOptions) {}

  /**
   * Runs an encoder. Whatever a script does is in the result. Throws `sandbox_busy` when too many wait and `shutting_down` after `stop`.
   */
  async encode(request: EncodeRequest): Promise<EncodeResult> {
    throw new Error(`not yet: ${request.owner} ${this.options.workers}`);
  }

  /** Ends the threads. What runs or waits is refused with `shutting_down`. Safe to call twice. */
  async stop(): Promise<void> {}
}
