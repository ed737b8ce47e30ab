import type { Worker } from 'node:worker_threads';
import { DomainError } from '../kernel/errors';
import { openWorker } from '../kernel/workers';
import type { CodecErrorCode } from './codecRun';
import { cpuMsOf } from './threadTime';
import { tooBusy } from './runLimits';
import type { Job, Report, ScriptResult, WorkerStart } from './worker/messages';

// The engine's memory is not in here; this bounds what our own side of the thread may take.
const RESOURCES = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16, stackSizeMb: 32 };

/** How long a thread may take until it is ready, in milliseconds. */
const START_MS = 10_000;

/** Makes the thread itself. Throws where the machine has none to give. */
export type WorkerOpener = (start: WorkerStart) => Worker;

/** Makes it of the program's own file. */
export const openScriptWorker: WorkerOpener = (start) => openWorker('codecWorker.js', { workerData: start, resourceLimits: RESOURCES });

/** Why a thread is no more: it hung, its engine may be damaged, it died, or it never got ready. */
export type ThreadEnd = 'hung' | 'spoiled' | 'crashed' | 'not_started';

/** Whom a thread tells what it is about. */
export interface ThreadOwner {
  /** It can take a job. */
  onReady(thread: ScriptThread): void;
  /** It takes none any more; whoever ran in it has been told. */
  onEnd(thread: ScriptThread, reason: ThreadEnd, cause: unknown): void;
}

interface Running {
  readonly resolve: (result: ScriptResult) => void;
  readonly reject: (error: Error) => void;
  readonly since: number;
}

/** One thread that runs scripts, one after the other. Ended at the hard deadline, and after anything that may have damaged it. */
export class ScriptThread {
  private readonly worker: Worker;
  private state: 'starting' | 'idle' | 'working' | 'ended' = 'starting';
  private running: Running | undefined;
  private deadline: NodeJS.Timeout | undefined;
  private cause: unknown;
  private held: string | undefined;
  private tid: number | undefined;
  private cpuMsBefore = 0;

  /** Throws where no thread can be started. Not ready within `startMs` it counts as not started. Until it is ready `heir` holds it. */
  constructor(
    private readonly start: WorkerStart,
    private readonly owner: ThreadOwner,
    { open = openScriptWorker, startMs = START_MS, heir }: { readonly open?: WorkerOpener | undefined; readonly startMs?: number; readonly heir?: string | undefined } = {},
  ) {
    this.held = heir;
    this.worker = open(start);
    this.deadline = setTimeout(() => setImmediate(() => this.startFailed(startMs)), startMs);
    this.worker.on('message', (report: Report) => this.heard(report));
    this.worker.on('error', (error) => (this.cause = error));
    this.worker.on('exit', () => this.died());
  }

  /** Whether it can take a job. */
  get isIdle(): boolean {
    return this.state === 'idle';
  }

  /** Whose script is in it or is being cleaned up, or was in the one that it replaces. */
  get holder(): string | undefined {
    return this.held;
  }

  /** Runs a job of an owner; only when idle. Rejected only by `end`. */
  async run(job: Job, owner: string): Promise<ScriptResult> {
    this.state = 'working';
    this.held = owner;
    this.setDeadline();
    this.worker.postMessage(job, []);
    return await new Promise((resolve, reject) => (this.running = { resolve, reject, since: performance.now() }));
  }

  /** Ends it, whatever it does; a job in it is refused with `shutting_down`. */
  async end(): Promise<void> {
    this.running?.reject(shuttingDown());
    this.retire();
    await this.worker.terminate();
  }

  private heard(report: Report): void {
    if (this.state === 'ended') return;
    if (report.kind === 'ready') {
      clearTimeout(this.deadline);
      this.state = 'idle';
      this.held = undefined;
      this.tid = report.tid;
      this.cpuMsBefore = report.cpuMs;
      this.owner.onReady(this);
      return;
    }
    this.settle(report.result);
    if (report.spoiled) this.discard('spoiled');
    else this.setDeadline(); // cleaning up takes as long as the script made it
  }

  private settle(result: ScriptResult): void {
    this.running?.resolve(result);
    this.running = undefined;
  }

  private setDeadline(): void {
    clearTimeout(this.deadline);
    // An answer that arrived while this process was busy is heard before the thread is judged.
    this.deadline = setTimeout(() => setImmediate(() => this.deadlinePassed()), this.start.limits.hardMs);
  }

  private startFailed(startMs: number): void {
    if (this.state !== 'starting') return;
    this.cause ??= new Error(`the thread was not ready after ${startMs} ms`);
    this.discard('not_started');
  }

  private deadlinePassed(): void {
    if (this.state !== 'working') return;
    if (this.running) this.settle(this.overrun());
    this.discard('hung');
  }

  /** The result of a script that does not stop. Where nobody knows what its thread computed, it is the script's fault. */
  private overrun(): ScriptResult {
    const { scriptMs, hardMs } = this.start.limits;
    const cpuMs = cpuMsOf(this.tid);
    if (cpuMs !== undefined && cpuMs - this.cpuMsBefore < scriptMs) return this.failure('timeout', `${tooBusy(this.start.limits)}; what it logged is lost`, true);
    return this.failure('timeout', `the script could not be stopped and was ended after ${hardMs} ms, and its thread with it; what it logged is lost`, false);
  }

  private died(): void {
    if (this.state === 'ended') return;
    const reason = this.state === 'starting' ? 'not_started' : 'crashed';
    const outOfMemory = (this.cause as { code?: unknown } | undefined)?.code === 'ERR_WORKER_OUT_OF_MEMORY';
    const code = outOfMemory ? 'out_of_memory' : 'runtime_error';
    this.settle(this.failure(code, 'the thread that ran the script broke; what it logged is lost', !outOfMemory));
    this.retire();
    this.owner.onEnd(this, reason, this.cause);
  }

  private failure(code: CodecErrorCode, message: string, blameless: boolean): ScriptResult {
    const executionTimeMs = this.running ? performance.now() - this.running.since : 0;
    return { answer: undefined, warnings: [], logs: [], executionTimeMs, error: { code, message, lineNumber: undefined }, blameless };
  }

  private discard(reason: ThreadEnd): void {
    this.retire();
    // The next thread need not wait until this one is gone.
    void this.worker.terminate();
    this.owner.onEnd(this, reason, this.cause);
  }

  private retire(): void {
    this.state = 'ended';
    clearTimeout(this.deadline);
  }
}

/** The answer to whoever runs or waits when the sandbox is stopped. */
export function shuttingDown(): DomainError {
  return new DomainError('unavailable', 'shutting_down', 'the server is shutting down; try again when it is back');
}
