import { statSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import type { Logger } from '../../kernel/logger';
import { startWorker } from '../../kernel/workers';
import { getLoadedModule } from './nativeModule';

/** The start data of the thread. */
export interface CheckpointStart {
  readonly file: string;
  /**
   * The path of SQLite's native module, which the thread cannot find by itself because its program is in another
   * folder.
   */
  readonly nativeModule: string;
}

/**
 * `checkpoint`: checkpoint what is possible without waiting for other connections. `quickCheck`, `fullCheck`: check for
 * corruption (in a separate thread: integrity.ts). `close`: close the file and exit.
 */
export type CheckpointRequest = 'checkpoint' | 'quickCheck' | 'fullCheck' | 'close';

/** The result of a checkpoint. */
export interface CheckpointReport {
  /** The length of the log in frames; each contains one page. */
  readonly frames: number;
  /** The number of pages that could not be checkpointed because a reader still uses the earlier state. */
  readonly remaining: number;
  /** Why the checkpoint failed; undefined: it succeeded. */
  readonly error: string | undefined;
}

/** When to run a checkpoint. */
export interface CheckpointLimits {
  /** The number of commits between two checkpoints. */
  readonly commitsPerCheckpoint: number;
  /** If the log has more frames than this, it is restarted. */
  readonly maxFrames: number;
}

const LIMITS: CheckpointLimits = { commitsPerCheckpoint: 25, maxFrames: 4000 };
/** Without the thread, the writer runs a checkpoint with each commit that finds this many frames (pages) in the log. */
const AUTO_CHECKPOINT_PAGES = 1000;

/**
 * Checkpoints the write-ahead log into the database file in a separate thread (a worker), because otherwise the writer,
 * and all callers with it, would wait for the disk. The thread starts with the first checkpoint, so that short commands
 * of the command line never start it. It never waits for readers or writers. SQLite restarts the log, which means that
 * it writes again from the beginning of the file, with the first write after a complete checkpoint. During continuous
 * writes no checkpoint is complete, so the writers pause for one if the log is long.
 */
export class Checkpoints {
  private worker: Worker | undefined;
  private closing: Promise<void> | undefined;
  private commitsSinceCheckpoint = 0;
  /** The log was too long at the last checkpoint, and SQLite can restart it after a complete one. */
  private isLogLong = false;
  /** No further checkpoint is started: the thread has failed, or `close` was called. */
  private isStopped = false;
  /** The last checkpoint failed. */
  private hasFailed = false;
  /** Passes the report of the running checkpoint to `requestCheckpoint`; undefined: no checkpoint is running. */
  private receiveReport: ((report: CheckpointReport | undefined) => void) | undefined;

  /**
   * `onThreadFailed`: the thread stopped, so the writer must run checkpoints itself. `pages`: the length of the log at
   * which it does so.
   */
  constructor(
    private readonly file: string,
    private readonly log: Logger,
    private readonly onThreadFailed: (pages: number) => void,
    private readonly limits = LIMITS,
  ) {}

  /**
   * Counts a commit, and starts a checkpoint in the thread after every `limits.commitsPerCheckpoint` commits, unless
   * one is still running. Call it after each commit.
   */
  handleCommit(): void {
    this.commitsSinceCheckpoint += 1;
    if (this.commitsSinceCheckpoint < this.limits.commitsPerCheckpoint || this.isRunning || this.isStopped) return;
    this.commitsSinceCheckpoint = 0;
    void this.checkpoint();
  }

  /**
   * If the log is long, runs a checkpoint and waits for it, so that it is complete and the next write restarts the log.
   * Does nothing while a checkpoint is already running. Call it while no transaction is writing.
   */
  async pauseIfLogIsLong(): Promise<void> {
    if (!this.isLogLong || this.isRunning || this.isStopped) return;
    await this.checkpoint();
    // The log restarts now, or a reader prevents it. The next checkpoint shows whether the log is still long.
    this.isLogLong = false;
  }

  /** Stops the thread; resolves when its connection is closed. */
  async close(): Promise<void> {
    await (this.closing ??= this.stopWorker());
  }

  /** Asks the thread to close its connection, and waits for its exit. */
  private async stopWorker(): Promise<void> {
    this.isStopped = true;
    const { worker } = this;
    if (!worker) return;
    worker.ref();
    const exited = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage('close' satisfies CheckpointRequest, []);
    await exited;
  }

  /** Whether a checkpoint is running. */
  private get isRunning(): boolean {
    return this.receiveReport !== undefined;
  }

  /** Runs a checkpoint and records whether the log is long. A repeated failure is logged only once. */
  private async checkpoint(): Promise<void> {
    const report = await this.requestCheckpoint();
    if (!report) return;
    const { frames, remaining, error } = report;
    // While a reader uses the earlier state, the log cannot restart, and a pause would be useless.
    this.isLogLong = frames > this.limits.maxFrames && remaining === 0;
    if (error !== undefined && !this.hasFailed) this.log.warn({ error, frames }, 'database.checkpoint_failed');
    this.hasFailed = error !== undefined;
  }

  /**
   * Asks the thread for a checkpoint and returns its report; undefined: the thread stopped. The thread keeps the
   * process alive only while a report is pending.
   */
  private async requestCheckpoint(): Promise<CheckpointReport | undefined> {
    const worker = this.getOrStartWorker();
    if (!worker) return undefined;
    return await new Promise((resolve) => {
      worker.ref();
      this.receiveReport = (report) => {
        this.receiveReport = undefined;
        if (!this.isStopped) worker.unref(); // otherwise stopWorker keeps the process alive until the thread exits
        resolve(report);
      };
      worker.postMessage('checkpoint' satisfies CheckpointRequest, []);
    });
  }

  /** Returns the worker thread, and starts it if necessary; undefined: it cannot be started. */
  private getOrStartWorker(): Worker | undefined {
    try {
      return (this.worker ??= this.createWorker());
    } catch (error) {
      this.handleFailure(error);
      return undefined;
    }
  }

  /**
   * Starts the thread with the native module that this process has loaded. Throws if that file was replaced: two copies
   * of SQLite in one process would not see each other's locks.
   */
  private createWorker(): Worker {
    const { file: nativeModule, inode } = getLoadedModule();
    if (statSync(nativeModule).ino !== inode)
      throw new Error("SQLite's native module was replaced while the program was running");
    const workerData: CheckpointStart = { file: this.file, nativeModule };
    const worker = startWorker('checkpointWorker.js', { workerData });
    worker.on('message', (report: CheckpointReport) => this.receiveReport?.(report));
    worker.on('error', (error) => this.handleFailure(error));
    worker.on('exit', (code) => {
      if (!this.isStopped) this.handleFailure(new Error(`the thread exited unexpectedly (${code})`));
      this.worker = undefined;
      this.receiveReport?.(undefined);
    });
    return worker;
  }

  /** Called when the thread stopped or could not start: from now on the writer runs checkpoints itself. */
  private handleFailure(error: unknown): void {
    this.isStopped = true;
    this.worker = undefined;
    this.log.warn({ error }, 'database.checkpoint_worker_failed');
    this.onThreadFailed(AUTO_CHECKPOINT_PAGES);
  }
}
