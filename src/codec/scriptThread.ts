import type { Worker } from 'node:worker_threads';
import { DomainError } from '../kernel/errors';
import { startWorker } from '../kernel/workers';
import type { CodecErrorCode } from './codecRun';
import { getThreadCpuTime } from './threadCpuTime';
import { formatBusyMessage } from './runLimits';
import type { ScriptJob, WorkerReport, ScriptResult, WorkerStart } from './worker/messages';

// The engine's memory is not included. This limits the memory of our own code in the thread.
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, stackSizeMb: 32 };

/** The time limit for the start of a thread, in milliseconds. */
const START_TIMEOUT_MS = 10_000;

/** Creates the thread. Throws if the machine cannot provide one. */
export type WorkerOpener = (start: WorkerStart) => Worker;

/** Creates a thread from the program's own file. */
export const openScriptWorker: WorkerOpener = (start) =>
  startWorker('codecWorker.js', { workerData: start, resourceLimits: RESOURCE_LIMITS });

/** Why a thread stopped: it hung, its engine may be corrupt, it died, or it never became ready. */
export type ThreadEndReason = 'timed_out' | 'corrupted' | 'crashed' | 'not_started';

/** Receives the events of a thread. */
interface ThreadListener {
  /** The thread can accept a job. */
  onReady(thread: ScriptThread): void;
  /** The thread accepts no more jobs. Its last job is already resolved. */
  onEnd(thread: ScriptThread, reason: ThreadEndReason, cause: unknown): void;
}

interface RunningJob {
  readonly resolve: (result: ScriptResult) => void;
  readonly reject: (error: Error) => void;
  readonly startedAt: number;
}

/**
 * One thread that runs scripts one after the other. It is terminated at the hard deadline and after anything that may
 * have corrupted it.
 */
export class ScriptThread {
  private readonly worker: Worker;
  private state: 'starting' | 'idle' | 'working' | 'ended' = 'starting';
  private running: RunningJob | undefined;
  private deadline: NodeJS.Timeout | undefined;
  private exitCause: unknown;
  private occupiedBy: string | undefined;
  private systemThreadId: number | undefined;
  /** The CPU time of the thread before its current script, in milliseconds. */
  private cpuMsBefore = 0;

  /**
   * Throws if no thread can be started. A thread that is not ready within `startTimeoutMs` counts as not started.
   * `previousOwner`: the owner whose script ended the thread that this one replaces. Until this thread is ready, it
   * counts as a thread of that owner, so that an owner whose scripts end threads does not occupy those of others.
   */
  constructor(
    private readonly start: WorkerStart,
    private readonly listener: ThreadListener,
    {
      open = openScriptWorker,
      startTimeoutMs = START_TIMEOUT_MS,
      previousOwner,
    }: {
      readonly open?: WorkerOpener | undefined;
      readonly startTimeoutMs?: number;
      readonly previousOwner?: string | undefined;
    } = {},
  ) {
    this.occupiedBy = previousOwner;
    this.worker = open(start);
    // setImmediate: a message that arrived while this process was busy is processed first.
    this.deadline = setTimeout(() => setImmediate(() => this.handleStartTimeout(startTimeoutMs)), startTimeoutMs);
    this.worker.on('message', (report: WorkerReport) => this.handleReport(report));
    this.worker.on('error', (error) => (this.exitCause = error));
    this.worker.on('exit', () => this.handleExit());
  }

  /** Whether the thread can accept a job. */
  get isIdle(): boolean {
    return this.state === 'idle';
  }

  /** The owner whose script runs in the thread, or ran in the thread that this one replaces. */
  get currentOwner(): string | undefined {
    return this.occupiedBy;
  }

  /**
   * Runs a job of an owner. Call it only when the thread is idle. Only `terminate` rejects it; every other
   * failure is a result with `error`.
   */
  async run(job: ScriptJob, owner: string): Promise<ScriptResult> {
    this.state = 'working';
    this.occupiedBy = owner;
    this.setDeadline();
    this.worker.postMessage(job, []);
    return await new Promise((resolve, reject) => (this.running = { resolve, reject, startedAt: performance.now() }));
  }

  /** Terminates the thread in any state. Its job is rejected with `shutting_down`. */
  async terminate(): Promise<void> {
    this.running?.reject(shuttingDown());
    this.markEnded();
    await this.worker.terminate();
  }

  /** Handles a message of the thread: it has started, or it sends the result of its job. */
  private handleReport(report: WorkerReport): void {
    if (this.state === 'ended') return;
    if (report.kind === 'answer') {
      this.resolveJob(report.result);
      if (report.isCorrupted) return this.discard('corrupted');
    } else {
      this.systemThreadId = report.systemThreadId;
    }
    clearTimeout(this.deadline);
    this.state = 'idle';
    this.occupiedBy = undefined;
    this.cpuMsBefore = report.cpuMs;
    this.listener.onReady(this);
  }

  private resolveJob(result: ScriptResult): void {
    this.running?.resolve(result);
    this.running = undefined;
  }

  /** Starts the hard deadline of a script. */
  private setDeadline(): void {
    clearTimeout(this.deadline);
    const timer = setTimeout(
      // A message that arrived while this process was busy is processed first; the next job may have started then.
      () => setImmediate(() => this.deadline === timer && this.handleDeadline()),
      this.start.limits.hardTimeoutMs,
    );
    this.deadline = timer;
  }

  private handleStartTimeout(startTimeoutMs: number): void {
    if (this.state !== 'starting') return;
    this.exitCause ??= new Error(`the thread was not ready after ${startTimeoutMs} ms`);
    this.discard('not_started');
  }

  /** Terminates the thread at the hard deadline: its script did not end. */
  private handleDeadline(): void {
    if (this.state !== 'working') return;
    this.resolveJob(this.createTimeoutResult());
    this.discard('timed_out');
  }

  /** The result of a script that does not stop. If the CPU time of its thread is unknown, the script is blamed. */
  private createTimeoutResult(): ScriptResult {
    const { timeoutMs, hardTimeoutMs } = this.start.limits;
    const cpuMs = getThreadCpuTime(this.systemThreadId);
    const wasMachineBusy = cpuMs !== undefined && cpuMs - this.cpuMsBefore < timeoutMs;
    if (wasMachineBusy)
      return this.createErrorResult('timeout', `${formatBusyMessage(this.start.limits)}; its log is lost`, true);
    return this.createErrorResult(
      'timeout',
      `the script did not stop: its thread was terminated after ${hardTimeoutMs} ms; its log is lost`,
      false,
    );
  }

  /** Handles an exit that this class did not cause: the result of the running job is an error. */
  private handleExit(): void {
    if (this.state === 'ended') return;
    const reason = this.state === 'starting' ? 'not_started' : 'crashed';
    const isOutOfMemory = (this.exitCause as { code?: unknown } | undefined)?.code === 'ERR_WORKER_OUT_OF_MEMORY';
    const code = isOutOfMemory ? 'out_of_memory' : 'runtime_error';
    this.resolveJob(this.createErrorResult(code, 'the thread of the script crashed; its log is lost', !isOutOfMemory));
    this.markEnded();
    this.listener.onEnd(this, reason, this.exitCause);
  }

  private createErrorResult(code: CodecErrorCode, message: string, isServerFault: boolean): ScriptResult {
    const executionTimeMs = this.running ? performance.now() - this.running.startedAt : 0;
    return {
      answer: undefined,
      warnings: [],
      logs: [],
      executionTimeMs,
      error: { code, message, lineNumber: undefined },
      isServerFault,
    };
  }

  /** Terminates the thread because of a failure, and reports its end. */
  private discard(reason: ThreadEndReason): void {
    this.markEnded();
    // The next thread does not wait for the exit of this one.
    void this.worker.terminate();
    this.listener.onEnd(this, reason, this.exitCause);
  }

  private markEnded(): void {
    this.state = 'ended';
    clearTimeout(this.deadline);
  }
}

/** Creates the error for running and waiting scripts when the sandbox stops. */
export function shuttingDown(): DomainError {
  return new DomainError('unavailable', 'shutting_down', 'the server is shutting down: try again after the restart');
}
