import { readAsset } from '../kernel/assets';
import { DomainError } from '../kernel/errors';
import { FairQueue } from '../kernel/fairQueue';
import type { Logger } from '../kernel/logger';
import type { CodecError, DecodeRequest, DecodeResult, EncodeRequest, EncodeResult } from './codecRun';
import type { EncoderAnswer } from './sandboxProtocol';
import { createCompileJob, createDecoderJob, createEncoderJob, type JobOrError } from './jobs';
import { SandboxCounts } from './sandboxCounts';
import type { RunLimits } from './runLimits';
import { ScriptThread, shuttingDown, type ThreadEndReason, type WorkerOpener } from './scriptThread';
import { MisbehavingOwners } from './misbehavingOwners';
import type { ScriptJob, ScriptResult, WorkerStart } from './worker/messages';

const MEBIBYTE = 1024 * 1024;
// The weight of a waiting script is the number of characters of the script and its input.
const QUEUE_LIMITS = { perOwner: { items: 256, weight: 16 * MEBIBYTE }, total: { items: 1024, weight: 64 * MEBIBYTE } };
const RETRY_AFTER_MS = 1000;
const MAX_START_DELAY_MS = 30_000;
/** The delay before the first repeated start of a thread. It doubles with each further failure. */
const FIRST_START_DELAY_MS = 200;

/** How the sandbox runs scripts. */
export interface SandboxOptions {
  /** The number of threads that run scripts, 1 to 16. */
  readonly workers: number;
  /** The CPU time limit of a script, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * The wall-clock limit after which the thread of a script that could not be stopped is terminated, in milliseconds.
   */
  readonly hardTimeoutMs: number;
  readonly log: Logger;
  /** Creates a thread; absent: from the program's own file. */
  readonly openWorker?: WorkerOpener;
  /**
   * Called after every script. `durationMs`: how long it waited and ran; `executionMs`: how long it ran; both by the
   * wall clock. `error`: its code.
   */
  readonly onRun?:
    | ((run: {
        readonly role: string;
        readonly durationMs: number;
        readonly executionMs: number;
        readonly error: string | undefined;
      }) => void)
    | undefined;
}

interface QueuedJob {
  readonly owner: string;
  readonly job: ScriptJob;
  readonly resolve: (result: ScriptResult | Promise<ScriptResult>) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Runs untrusted encoders and decoders in separate threads. The threads start with the first script, or with `warmUp`.
 */
export class Sandbox {
  readonly counts = new SandboxCounts();
  private readonly queue = new FairQueue<QueuedJob>(QUEUE_LIMITS);
  private readonly misbehavingOwners = new MisbehavingOwners();
  private readonly threads = new Set<ScriptThread>();
  private workerStart: WorkerStart | undefined;
  private startTimer: NodeJS.Timeout | undefined;
  private startFailures = 0;
  private isStopped = false;

  constructor(private readonly options: SandboxOptions) {}

  /** Starts the threads, so that the first script does not wait for them. */
  warmUp(): void {
    this.startThreads();
  }

  /**
   * Runs an encoder. The result reports everything that the script does. Throws `codec_queue_full` when too many
   * scripts wait, `shutting_down` after `stop`, and `codec_unavailable` while no thread can be started. When `signal`
   * aborts, a waiting script is dropped and the signal's reason is thrown; a running script continues.
   */
  async encode(request: EncodeRequest, signal?: AbortSignal): Promise<EncodeResult> {
    const { answer, nonFinite: _none, ...report } = await this.run(request.owner, createEncoderJob(request), signal);
    return { output: answer && decodeOutput(answer as unknown as EncoderAnswer), ...report };
  }

  /** Runs a decoder, under the same rules as `encode`. */
  async decode(request: DecodeRequest): Promise<DecodeResult> {
    const { answer, ...report } = await this.run(request.owner, createDecoderJob(request), undefined);
    return { data: answer, ...report };
  }

  /**
   * Compiles a script without running it, under the same rules as `encode`. Returns why it cannot be compiled, with the
   * line; undefined if it can.
   */
  async compile(owner: string, script: string, signal?: AbortSignal): Promise<CodecError | undefined> {
    return (await this.run(owner, createCompileJob(script), signal)).error;
  }

  /** The current load: threads, busy threads, and waiting scripts. */
  getLoad(): { readonly threads: number; readonly busyThreads: number; readonly waiting: number } {
    return {
      threads: this.threads.size,
      busyThreads: [...this.threads].filter(({ isIdle }) => !isIdle).length,
      waiting: this.queue.size,
    };
  }

  /** Stops the threads. Running and waiting scripts are rejected with `shutting_down`. Safe to call twice. */
  async stop(): Promise<void> {
    this.isStopped = true;
    clearTimeout(this.startTimer);
    for (const { reject } of this.queue.removeAll()) reject(shuttingDown());
    await Promise.all([...this.threads].map(async (thread) => await thread.terminate()));
  }

  /** Runs a job and records its result. An error of the request itself is a result too, without a run. */
  private async run(owner: string, { job, error }: JobOrError, signal: AbortSignal | undefined): Promise<ScriptResult> {
    signal?.throwIfAborted();
    if (this.isStopped) throw shuttingDown();
    // The timer runs after a failed start, until the next attempt.
    const canStartNoThread = this.threads.size === 0 && this.startTimer !== undefined;
    if (canStartNoThread) {
      this.counts.runs.add('refused');
      throw codecUnavailable();
    }
    if (error)
      return this.recordResult(
        { answer: undefined, warnings: [], logs: [], executionTimeMs: 0, error, isServerFault: false },
        0,
      );
    const startedAt = performance.now();
    const result = this.recordResult(await this.enqueue(owner, job, signal), performance.now() - startedAt);
    this.options.onRun?.({
      role: job.role,
      durationMs: performance.now() - startedAt,
      executionMs: result.executionTimeMs,
      error: result.error?.code,
    });
    return result;
  }

  /** Counts a result and returns it. `durationMs`: the time that the script waited and ran. */
  private recordResult(result: ScriptResult, durationMs: number): ScriptResult {
    this.counts.runs.add(result.error?.code ?? 'ok');
    this.counts.durations.add(result.executionTimeMs);
    this.counts.waits.add(durationMs);
    return result;
  }

  /** Queues a job until a thread runs it. When the signal aborts, a job that still waits is rejected. */
  private async enqueue(owner: string, job: ScriptJob, signal: AbortSignal | undefined): Promise<ScriptResult> {
    const { promise, resolve, reject } = Promise.withResolvers<ScriptResult>();
    const queued = { owner, job, resolve, reject };
    if (!this.queue.add(owner, queued, job.script.length + job.input.length)) {
      this.counts.runs.add('refused');
      throw codecQueueFull();
    }
    const cancel = (): void => {
      if (this.queue.remove(owner, queued)) reject(signal?.reason);
    };
    signal?.addEventListener('abort', cancel);
    this.startThreads();
    this.dispatch();
    try {
      return await promise;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** Assigns waiting scripts to idle threads. */
  private dispatch(): void {
    for (const thread of this.threads) {
      if (!thread.isIdle) continue;
      const queued = this.queue.removeNext((owner) => this.canRun(owner));
      if (!queued) return;
      queued.resolve(thread.run(queued.job, queued.owner));
    }
  }

  /**
   * Whether a script of the owner may start now. An owner whose script recently caused the loss of its thread holds at
   * most one thread, so that the rest remain for other owners. The replacement of the lost thread counts as held by it
   * until it is ready.
   */
  private canRun(owner: string): boolean {
    if (this.options.workers === 1 || !this.misbehavingOwners.has(owner)) return true;
    return [...this.threads].every(({ currentOwner }) => currentOwner !== owner);
  }

  /**
   * Starts threads up to the configured number, or until one cannot be started. Never throws, because its callers do
   * not catch. `previousOwner`: the owner that lost the thread which is replaced.
   */
  private startThreads(previousOwner?: string): void {
    while (!this.isStopped && !this.startTimer && this.threads.size < this.options.workers) {
      try {
        this.threads.add(this.openThread(previousOwner));
      } catch (cause) {
        this.scheduleStart(cause); // sets the start timer, which ends the loop
      }
    }
  }

  /** Creates a thread. `previousOwner`: the owner that lost the thread which this one replaces. */
  private openThread(previousOwner: string | undefined): ScriptThread {
    let isFirstReady = true;
    const onReady = (): void => {
      if (isFirstReady) this.startFailures = 0; // later threads say nothing about those that are not started yet
      isFirstReady = false;
      this.dispatch();
    };
    this.workerStart ??= createWorkerStart(this.options);
    return new ScriptThread(
      this.workerStart,
      { onReady, onEnd: (thread, reason, cause) => this.handleThreadEnd(thread, reason, cause) },
      { open: this.options.openWorker, previousOwner },
    );
  }

  /** Replaces a thread that ended. `cause`: the error that it ended with, if any. */
  private handleThreadEnd(thread: ScriptThread, reason: ThreadEndReason, cause: unknown): void {
    this.threads.delete(thread);
    if (reason === 'not_started') this.scheduleStart(cause);
    else this.replaceLostThread(thread.currentOwner, reason, cause);
    this.dispatch(); // an owner may have waited for this thread although another one is idle
  }

  /** Logs the loss of a thread, penalizes the owner whose script ran in it, and starts another thread. */
  private replaceLostThread(owner: string | undefined, reason: ThreadEndReason, cause: unknown): void {
    this.counts.threadEnds.add(reason);
    if (owner !== undefined) this.misbehavingOwners.add(owner);
    const fields = {
      reason,
      ...(owner === undefined ? {} : { owner }),
      ...(cause === undefined ? {} : { err: cause }),
    };
    // A corrupted engine is normal: a script that uses much memory is enough.
    if (reason === 'corrupted') this.options.log.debug(fields, 'codec.worker_restarted');
    else this.options.log.warn(fields, 'codec.worker_restarted');
    this.startThreads(owner);
  }

  /**
   * Starts threads again after a delay, which grows with each failed start. If no thread is running, rejects the
   * waiting scripts: a thread that cannot start is a problem of the machine.
   */
  private scheduleStart(cause: unknown): void {
    this.startFailures += 1;
    this.counts.threadEnds.add('not_started');
    const delayMs = Math.min(FIRST_START_DELAY_MS * 2 ** (this.startFailures - 1), MAX_START_DELAY_MS);
    this.options.log.error({ err: cause, retry_ms: delayMs }, 'codec.worker_start_failed');
    const rejected = this.threads.size === 0 ? this.queue.removeAll() : [];
    this.counts.runs.add('refused', rejected.length);
    for (const { reject } of rejected) reject(codecUnavailable());
    clearTimeout(this.startTimer);
    this.startTimer = setTimeout(() => {
      this.startTimer = undefined;
      this.startThreads();
    }, delayMs);
  }
}

const readTextAsset = (name: string): string => readAsset(name).toString();

/** Reads the start data of the threads from the program's files. */
export function createWorkerStart({ timeoutMs, hardTimeoutMs }: RunLimits): WorkerStart {
  return {
    engine: new WebAssembly.Module(new Uint8Array(readAsset('quickjs.wasm'))),
    preludes: {
      encoder: readTextAsset('encoderGuest.js'),
      decoder: readTextAsset('decoderGuest.js'),
      encoding: readTextAsset('encoding-prelude.js'),
      buffer: readTextAsset('buffer-prelude.js'),
      require: readTextAsset('require-prelude.js'),
    },
    limits: { timeoutMs, hardTimeoutMs },
  };
}

function decodeOutput({ hex, fPort }: EncoderAnswer): EncodeResult['output'] {
  return { bytes: new Uint8Array(Buffer.from(hex, 'hex')), fPort };
}

const codecQueueFull = (): DomainError =>
  new DomainError('exhausted', 'codec_queue_full', 'too many scripts are waiting: try again in a second', {
    retryAfterMs: RETRY_AFTER_MS,
  });
const codecUnavailable = (): DomainError =>
  new DomainError(
    'unavailable',
    'codec_unavailable',
    'the script threads cannot be started: see the server log for the reason',
    { retryAfterMs: RETRY_AFTER_MS },
  );
