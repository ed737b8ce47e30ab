import { statSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import type { Logger } from '../../kernel/logger';
import { openWorker } from '../../kernel/workers';
import { loadedEngine } from './machineCode';

/** What the thread begins with. */
export interface CheckpointStart {
  readonly file: string;
  /** The file of the engine's machine code; the thread's own program lies elsewhere than the process's. */
  readonly engine: string;
}

/** `fold`: fold in what can be without waiting for anybody. `look`, `lookWhole`: look for damage (a thread of its own: damage.ts). `close`: close the file and end. */
export type CheckpointRequest = 'fold' | 'look' | 'lookWhole' | 'close';

/** What came of folding. */
export interface CheckpointReport {
  /** How long the log is, in pages. */
  readonly frames: number;
  /** How many of them could not be folded in, because somebody still reads what was before. */
  readonly left: number;
  /** Why nothing could be folded in; undefined: it could. */
  readonly error: string | undefined;
}

/** When the log is folded in. */
export interface CheckpointLimits {
  /** After so many commits. */
  readonly commits: number;
  /** The log begins anew when it is longer than this, in pages. */
  readonly frames: number;
}

const LIMITS: CheckpointLimits = { commits: 25, frames: 4000 };
const WITHOUT_THREAD = 1000;

/**
 * Folds the write-ahead log into the database file, in a thread of its own: the writer would wait for the disk, and everybody with it. The
 * thread begins with the first need, so that short commands do without.
 *
 * It never waits for readers or writers. SQLite begins the log anew with the first write after all of it was folded in, which
 * those who write all the time do not let happen: so they pause for what came since the last time, where the log is long.
 */
export class Checkpoints {
  private worker: Worker | undefined;
  private closing: Promise<void> | undefined;
  private commits = 0;
  private isLong = false;
  private isOver = false;
  private isFailing = false;
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
    void this.fold();
  }

  /** Call it while nobody writes: lets the log begin anew where it is long, and resolves then. */
  async pause(): Promise<void> {
    if (!this.isLong || this.reported || this.isOver) return;
    await this.fold();
    this.isLong = false; // if it does not begin anew, somebody reads: then the next report says so
  }

  /** Ends the thread; resolves when its connection is closed. */
  async close(): Promise<void> {
    await (this.closing ??= this.end());
  }

  private async end(): Promise<void> {
    this.isOver = true;
    const { worker } = this;
    if (!worker) return;
    worker.ref();
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage('close' satisfies CheckpointRequest, []);
    await ended;
  }

  private async fold(): Promise<void> {
    const report = await this.ask();
    if (!report) return;
    const { frames, left, error } = report;
    // While somebody reads what was before, the log cannot begin anew, and a pause would be in vain.
    this.isLong = frames > this.limits.frames && left === 0;
    if (error !== undefined && !this.isFailing) this.log.warn({ error, frames }, 'database.checkpoint_failed');
    this.isFailing = error !== undefined;
  }

  /** Undefined: the thread is no more. */
  private async ask(): Promise<CheckpointReport | undefined> {
    const worker = this.opened();
    if (!worker) return undefined;
    return await new Promise((resolve) => {
      worker.ref();
      this.reported = (report) => {
        this.reported = undefined;
        if (!this.isOver) worker.unref();
        resolve(report);
      };
      worker.postMessage('fold' satisfies CheckpointRequest, []);
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
    const { file: engine, inode } = loadedEngine();
    // Two copies of SQLite in one process would not see each other's locks: the file must still be the one that the process has loaded.
    if (statSync(engine).ino !== inode) throw new Error('the program was replaced while it runs');
    const workerData: CheckpointStart = { file: this.file, engine };
    const worker = openWorker('checkpointWorker.js', { workerData });
    worker.on('message', (report: CheckpointReport) => this.reported?.(report));
    worker.on('error', (error) => this.failed(error));
    worker.on('exit', (code) => {
      if (!this.isOver) this.failed(new Error(`the thread ended by itself (${code})`));
      this.worker = undefined;
      this.reported?.(undefined);
    });
    return worker;
  }

  private failed(error: unknown): void {
    this.isOver = true;
    this.worker = undefined;
    this.log.warn({ error }, 'database.checkpoint_thread_failed');
    this.onFailed(WITHOUT_THREAD);
  }
}
