import { Worker } from 'node:worker_threads';
import { assetPath } from '../../kernel/assets';
import type { Logger } from '../../kernel/logger';
import { loadedEngine } from './sqliteConnection';

/** What the thread begins with. */
export interface CheckpointStart {
  readonly file: string;
  /** The inode of the engine's machine code. */
  readonly engine: number;
}

/** `passive`: beside whoever writes. `restart`: while nobody writes; afterwards the log begins anew. */
export type CheckpointRequest = 'passive' | 'restart' | 'close';

/** How long the log is, in pages. */
export interface CheckpointReport {
  readonly frames: number;
}

/** When the log is folded in. */
export interface CheckpointLimits {
  /** After so many commits beside the writers. */
  readonly commits: number;
  /** The log begins anew when it is longer than this, in pages. */
  readonly frames: number;
}

const LIMITS: CheckpointLimits = { commits: 25, frames: 4000 };
const WITHOUT_THREAD = 1000;
/** The writer does it by itself only when the thread is far behind. */
export const LONGEST_LOG = 16_000;

/**
 * Folds the write-ahead log into the database file, in a thread of its own: the writer would wait for the disk, and everybody with it. The
 * thread begins with the first need, so that short commands do without.
 */
export class Checkpoints {
  private worker: Worker | undefined;
  private commits = 0;
  private isLong = false;
  private isOver = false;
  private reported: ((report: CheckpointReport | undefined) => void) | undefined;

  /** `onFailed`: the thread is no more, and the writer has to fold the log in by itself after so many pages. */
  constructor(
    private readonly file: string,
    private readonly log: Logger,
    private readonly onFailed: (pages: number) => void,
    private readonly limits = LIMITS,
  ) {}

  /** A commit is on disk. */
  committed(): void {
    this.commits += 1;
    if (this.commits < this.limits.commits || this.reported || this.isOver) return;
    this.commits = 0;
    void this.measure();
  }

  /** Call it while nobody writes: lets the log begin anew where it is long, and resolves then. */
  async pause(): Promise<void> {
    if (!this.isLong || this.reported || this.isOver) return;
    this.isLong = false;
    await this.ask('restart');
  }

  /** Ends the thread; resolves when its connection is closed. */
  async close(): Promise<void> {
    const { worker } = this;
    if (!worker) return;
    this.isOver = true;
    worker.ref();
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage('close' satisfies CheckpointRequest, []);
    await ended;
  }

  private async measure(): Promise<void> {
    const report = await this.ask('passive');
    this.isLong = (report?.frames ?? 0) > this.limits.frames;
  }

  /** Undefined: the thread is no more. */
  private async ask(request: CheckpointRequest): Promise<CheckpointReport | undefined> {
    const worker = this.opened();
    if (!worker) return undefined;
    return await new Promise((resolve) => {
      worker.ref();
      this.reported = (report) => {
        this.reported = undefined;
        worker.unref();
        resolve(report);
      };
      worker.postMessage(request, []);
    });
  }

  private opened(): Worker | undefined {
    try {
      return (this.worker ??= this.open());
    } catch (error) {
      this.failed(error);
      return undefined;
    }
  }

  private open(): Worker {
    const workerData: CheckpointStart = { file: this.file, engine: loadedEngine() };
    const worker = new Worker(assetPath('checkpointWorker.js'), { workerData, execArgv: [], env: {} });
    worker.on('message', (report: CheckpointReport) => this.reported?.(report));
    worker.on('error', (error) => this.failed(error));
    worker.on('exit', () => this.reported?.(undefined));
    return worker;
  }

  private failed(error: unknown): void {
    this.isOver = true;
    this.worker = undefined;
    this.log.warn({ error }, 'database.checkpoint_thread_failed');
    this.onFailed(WITHOUT_THREAD);
  }
}
