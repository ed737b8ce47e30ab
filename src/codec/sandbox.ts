import { asset } from '../kernel/assets';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import type { DecodeRequest, DecodeResult, EncodeRequest, EncodeResult } from './codecRun';
import type { EncoderAnswer } from './guestWords';
import { decoderJob, encoderJob, type JobOrError } from './jobs';
import { SandboxCounts } from './sandboxCounts';
import { ScriptThread, shuttingDown, type ThreadEnd, type WorkerOpener } from './scriptThread';
import { Suspects } from './suspects';
import { Turns } from './turns';
import type { Job, ScriptResult, WorkerStart } from './worker/messages';

const MEBIBYTE = 1024 * 1024;
const WAITING = { each: { items: 256, weight: 16 * MEBIBYTE }, all: { items: 1024, weight: 64 * MEBIBYTE } };
const RETRY_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;

/** How the sandbox runs scripts. */
export interface SandboxOptions {
  /** Threads that run scripts, 1 to 16. */
  readonly workers: number;
  /** How long a script may compute, in milliseconds. */
  readonly scriptMs: number;
  /** When a script that could not be stopped loses its thread, in milliseconds of the wall clock. */
  readonly hardMs: number;
  readonly log: Logger;
  /** Makes a thread; absent: from the program's own file. */
  readonly openWorker?: WorkerOpener;
  /** Told of every script that came to its end: how long it waited and ran together, and what of that it computed, in milliseconds; `error`: its code. */
  readonly onRun?: ((run: { readonly role: string; readonly durationMs: number; readonly scriptMs: number; readonly error: string | undefined }) => void) | undefined;
}

interface Waiting {
  readonly owner: string;
  readonly job: Job;
  readonly resolve: (result: ScriptResult | Promise<ScriptResult>) => void;
  readonly reject: (reason: unknown) => void;
}

/** Runs encoders and decoders that nobody trusts, in threads of their own. They start with the first script, or with `warmUp` before that. */
export class Sandbox {
  readonly counts = new SandboxCounts();
  private readonly turns = new Turns<Waiting>(WAITING);
  private readonly suspects = new Suspects();
  private readonly threads = new Set<ScriptThread>();
  private start: WorkerStart | undefined;
  private pause: NodeJS.Timeout | undefined;
  private failures = 0;
  private stopped = false;

  constructor(private readonly options: SandboxOptions) {}

  /** Starts the threads, so that the first script need not wait for them. */
  warmUp(): void {
    this.fill();
  }

  /**
   * Runs an encoder. Whatever a script does is in the result. Throws `sandbox_busy` when too many wait, `shutting_down` after `stop`,
   * and `sandbox_unavailable` while no thread can be started. A script that waits is dropped when `signal` aborts, and the signal's reason is
   * thrown; one that runs goes on.
   */
  async encode(request: EncodeRequest, signal?: AbortSignal): Promise<EncodeResult> {
    const { answer, ...report } = await this.run(request.owner, encoderJob(request), signal);
    return { output: answer && outputOf(answer as unknown as EncoderAnswer), ...report };
  }

  /** Runs a decoder, as `encode` does an encoder. */
  async decode(request: DecodeRequest, signal?: AbortSignal): Promise<DecodeResult> {
    const { answer, ...report } = await this.run(request.owner, decoderJob(request), signal);
    return { data: answer, ...report };
  }

  /** How much it has to do now: threads that are there, those of them that work, and scripts that wait for one. */
  load(): { readonly threads: number; readonly working: number; readonly waiting: number } {
    return { threads: this.threads.size, working: [...this.threads].filter(({ isIdle }) => !isIdle).length, waiting: this.turns.size };
  }

  /** Ends the threads. What runs or waits is refused with `shutting_down`. Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.pause);
    for (const { reject } of this.turns.takeAll()) reject(shuttingDown());
    await Promise.all([...this.threads].map(async (thread) => await thread.end()));
  }

  private async run(owner: string, { job, error }: JobOrError, signal: AbortSignal | undefined): Promise<ScriptResult> {
    signal?.throwIfAborted();
    if (this.stopped) throw shuttingDown();
    if (this.threads.size === 0 && this.pause) {
      this.counts.runs.add('refused');
      throw unavailable();
    }
    if (error) return this.counted({ answer: undefined, warnings: [], logs: [], executionTimeMs: 0, error, blameless: false }, 0);
    const since = performance.now();
    const result = this.counted(await this.takeTurn(owner, job, signal), performance.now() - since);
    this.options.onRun?.({ role: job.role, durationMs: performance.now() - since, scriptMs: result.executionTimeMs, error: result.error?.code });
    return result;
  }

  private counted(result: ScriptResult, milliseconds: number): ScriptResult {
    this.counts.runs.add(result.error?.code ?? 'ok');
    this.counts.durations.add(result.executionTimeMs);
    this.counts.waits.add(milliseconds);
    return result;
  }

  private async takeTurn(owner: string, job: Job, signal: AbortSignal | undefined): Promise<ScriptResult> {
    const { promise, resolve, reject } = Promise.withResolvers<ScriptResult>();
    const waiting = { owner, job, resolve, reject };
    if (!this.turns.add(owner, waiting, job.script.length + job.input.length)) {
      this.counts.runs.add('refused');
      throw busy();
    }
    const leave = (): void => {
      if (this.turns.remove(owner, waiting)) reject(signal?.reason);
    };
    signal?.addEventListener('abort', leave);
    this.fill();
    this.dispatch();
    try {
      return await promise;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  private dispatch(): void {
    for (const thread of this.threads) {
      if (!thread.isIdle) continue;
      const waiting = this.turns.next((owner) => this.mayRun(owner));
      if (!waiting) return;
      waiting.resolve(thread.run(waiting.job, waiting.owner));
    }
  }

  /** Who lately lost a thread waits while it holds another, or for the one in its place, if there are more for the others. */
  private mayRun(owner: string): boolean {
    return this.options.workers === 1 || !this.suspects.has(owner) || ![...this.threads].some(({ holder }) => holder === owner);
  }

  /** Starts threads until there are as many as there should be, or one cannot be started. Never throws: it is called where nobody would catch. */
  private fill(heir?: string): void {
    while (!this.stopped && !this.pause && this.threads.size < this.options.workers) {
      try {
        this.threads.add(this.open(heir));
      } catch (cause) {
        this.startLater(cause);
      }
    }
  }

  private open(heir: string | undefined): ScriptThread {
    let isNew = true;
    const onReady = (): void => {
      if (isNew) this.failures = 0; // later ones say nothing about the threads that are still to be started
      isNew = false;
      this.dispatch();
    };
    this.start ??= startOf(this.options);
    return new ScriptThread(this.start, { onReady, onEnd: (thread, reason, cause) => this.replace(thread, reason, cause) }, { open: this.options.openWorker, heir });
  }

  private replace(thread: ScriptThread, reason: ThreadEnd, cause: unknown): void {
    this.threads.delete(thread);
    if (reason === 'not_started') this.startLater(cause);
    else this.lost(thread.holder, reason, cause);
    this.dispatch(); // an owner may have waited for this one, though another is free
  }

  private lost(owner: string | undefined, reason: ThreadEnd, cause: unknown): void {
    this.counts.threadEnds.add(reason);
    if (owner !== undefined) this.suspects.add(owner);
    const fields = { reason, ...(owner === undefined ? {} : { owner }), ...(cause === undefined ? {} : { err: cause }) };
    if (reason === 'spoiled') this.options.log.debug(fields, 'codec.thread_replaced');
    else this.options.log.warn(fields, 'codec.thread_replaced');
    this.fill(owner);
  }

  /** A thread that cannot start is a fault of the machine: tried again ever more slowly, and nobody is left waiting for it. */
  private startLater(cause: unknown): void {
    this.failures += 1;
    this.counts.threadEnds.add('not_started');
    const pauseMs = Math.min(100 * 2 ** this.failures, LONGEST_PAUSE_MS);
    this.options.log.error({ err: cause, retry_ms: pauseMs }, 'codec.thread_not_started');
    const given = this.threads.size === 0 ? this.turns.takeAll() : [];
    this.counts.runs.add('refused', given.length);
    for (const { reject } of given) reject(unavailable());
    clearTimeout(this.pause);
    this.pause = setTimeout(() => {
      this.pause = undefined;
      this.fill();
    }, pauseMs);
  }
}

const text = (name: string): string => asset(name).toString();

function startOf({ scriptMs, hardMs }: SandboxOptions): WorkerStart {
  return {
    engine: new WebAssembly.Module(new Uint8Array(asset('quickjs.wasm'))),
    preludes: {
      encoder: text('encoderGuest.js'),
      decoder: text('decoderGuest.js'),
      encoding: text('encoding-prelude.js'),
      buffer: text('buffer-prelude.js'),
      require: text('require-prelude.js'),
    },
    limits: { scriptMs, hardMs },
  };
}

function outputOf({ hex, fPort }: EncoderAnswer): EncodeResult['output'] {
  return { bytes: new Uint8Array(Buffer.from(hex, 'hex')), fPort };
}

const busy = (): DomainError => new DomainError('exhausted', 'sandbox_busy', 'too many scripts wait for their turn; try again in a second', { retryAfterMs: RETRY_MS });
const unavailable = (): DomainError =>
  new DomainError('unavailable', 'sandbox_unavailable', 'the threads that run scripts cannot be started; the log of the server says why', { retryAfterMs: RETRY_MS });
