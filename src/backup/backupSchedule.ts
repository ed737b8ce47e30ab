import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLockFile } from '../database';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import { sleep } from '../kernel/sleep';
import { getCode } from '../kernel/errorUtils';
import { type BackupCommand, runBackupCommand } from './runBackupCommand';
import { findBackupFiles, getTempFolder, excludeFutureBackups } from './backupFiles';
import { BACKUP_LOCK } from './backupFolder';
import { findLastDueTime } from '../kernel/cronSchedule';

/** The dependencies of the schedule. */
export interface BackupScheduleOptions {
  /** A cron expression, or `off`. */
  readonly schedule: string;
  /** The backup folder. */
  readonly dir: string;
  readonly dataDir: string;
  readonly installationId: string;
  readonly command: BackupCommand;
  /** The machine's clock. */
  readonly clock: Clock;
  /**
   * Whether the machine's clock is unreliable at the moment: the backup waits, because its name contains the time. By
   * default it is reliable.
   */
  readonly isClockUnreliable?: () => boolean;
  readonly log: Logger;
  /**
   * The delay after the start, so that the server can start its work first, and the interval between two checks; in
   * milliseconds.
   */
  readonly startDelayMs?: number;
  readonly checkIntervalMs?: number;
  /** The time limit of a backup in milliseconds, or ten times the duration of the last one if that is longer. */
  readonly maxDurationMs?: number;
}

const START_DELAY_MS = 30_000;
const CHECK_INTERVAL_MS = 15_000;
const MAX_DURATION_MS = 6 * 3_600_000;
const MAX_DURATION_FACTOR = 10;

/**
 * Makes a backup when one is due, one at a time, in a separate process. A backup that was missed while the server was
 * off is made after the start. The folder is the only record of finished backups. A clock that jumps forward causes one
 * backup at most; one that jumps back causes no second one.
 */
export class BackupSchedule {
  private readonly stopping = new AbortController();
  private loop: Promise<void> | undefined;
  /** A backup that was due at or before this time is done or has failed; Unix milliseconds. */
  private handledUpTo = 0;
  /** The duration of the last backup that this process made. */
  private lastDurationMs = 0;

  constructor(private readonly options: BackupScheduleOptions) {}

  /** Starts the schedule; resolves immediately. */
  start(): void {
    this.loop ??= this.runLoop();
  }

  /** Stops the schedule: cancels a running backup, and waits until it has ended. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.loop;
  }

  /**
   * Removes the remains of a killed backup, then runs each backup when it is due, until the server stops. A backup in
   * the folder that was made after a due time counts for that time, whichever process made it.
   */
  private async runLoop(): Promise<void> {
    const { signal } = this.stopping;
    const {
      schedule,
      clock,
      startDelayMs = START_DELAY_MS,
      checkIntervalMs = CHECK_INTERVAL_MS,
      isClockUnreliable = () => false,
    } = this.options;
    await this.removePartialBackup();
    this.handledUpTo = await this.findNewestBackupTime();
    if (schedule === 'off') return;
    await sleep(startDelayMs, signal);
    while (!signal.aborted) {
      const due = findLastDueTime(schedule, clock.now()) ?? 0;
      if (due > this.handledUpTo && !isClockUnreliable()) await this.runBackup(due);
      await sleep(checkIntervalMs, signal);
    }
  }

  /**
   * Runs the backup that was due at `due` (Unix milliseconds) and records its outcome. A backup that exceeds the time
   * limit is terminated.
   */
  private async runBackup(due: number): Promise<void> {
    const { clock, log, command } = this.options;
    this.handledUpTo = due; // a failed backup is retried when the next one is due
    const startedAt = clock.monotonic();
    const limitMs = Math.max(this.options.maxDurationMs ?? MAX_DURATION_MS, MAX_DURATION_FACTOR * this.lastDurationMs);
    const timeLimit = new AbortController();
    const timer = setTimeout(() => timeLimit.abort(), limitMs);
    const { report, error: message } = await runBackupCommand(
      command,
      AbortSignal.any([this.stopping.signal, timeLimit.signal]),
    );
    clearTimeout(timer);
    const error = timeLimit.signal.aborted
      ? `it took longer than ${Math.round(limitMs / 60_000)} minutes and was terminated: ${message}`
      : message;
    const durationMs = Math.round(clock.monotonic() - startedAt);
    if (report) {
      this.lastDurationMs = durationMs;
      for (const warning of report.warnings) log.warn({ message: warning }, 'backup.incomplete');
      log.info(
        { file: report.file, bytes: report.bytes, removed: report.removed.length, duration_ms: durationMs },
        'backup.created',
      );
      return;
    }
    await this.removePartialBackup();
    if (this.stopping.signal.aborted) return;
    log.error({ message: error, duration_ms: durationMs }, 'backup.failed');
  }

  /** Removes the remains of a killed backup, unless a backup is running. */
  private async removePartialBackup(): Promise<void> {
    const { dir, dataDir, installationId, log } = this.options;
    const temp = getTempFolder(dir, installationId);
    try {
      await stat(temp);
      const lock = tryLockFile(join(dataDir, BACKUP_LOCK));
      if (!lock) return;
      await rm(temp, { recursive: true, force: true }).finally(() => lock.release());
      log.info({ folder: temp }, 'backup.partial_removed');
    } catch (error) {
      if (getCode(error) !== 'ENOENT') log.warn({ err: error, folder: temp }, 'backup.partial_cleanup_failed');
    }
  }

  /**
   * Returns when the newest backup of this installation in the folder was made, by any process; 0 if there is none, or
   * if the folder does not exist or its disk is unavailable. Backups with a future date do not count.
   */
  private async findNewestBackupTime(): Promise<number> {
    const { dir, installationId, clock } = this.options;
    try {
      const [newest] = excludeFutureBackups(await findBackupFiles(dir, installationId), clock.now());
      return newest?.createdAt ?? 0;
    } catch {
      return 0;
    }
  }
}
