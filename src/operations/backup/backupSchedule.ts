import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { findFileLock } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { pause } from '../../kernel/pause';
import { codeOf } from '../../kernel/thrown';
import { type BackupCommand, runBackupCommand } from './backupChild';
import { findBackupsOf, tempFolderOf, upTo } from './backupFiles';
import { BACKUP_LOCK } from './backupFolder';
import { lastDue, nextDue } from './schedule';

/** What it needs. */
export interface BackupScheduleOptions {
  /** As cron writes it, or `off`. */
  readonly schedule: string;
  /** The folder of backups. */
  readonly dir: string;
  readonly dataDir: string;
  readonly installationId: string;
  readonly command: BackupCommand;
  /** One that never runs backwards. */
  readonly clock: Clock;
  /** Whether the clock of the machine is not to be trusted just now: a backup bears its time, so it waits. Where nothing is said, it is. */
  readonly isClockDoubted?: () => boolean;
  readonly log: Logger;
  /** After the start nothing is made for so long, in milliseconds, so that the server can take up its work; then it looks so often. */
  readonly settleMs?: number;
  readonly lookEveryMs?: number;
  /** A backup may take so long, in milliseconds, or ten times as long as the last one. */
  readonly longestMs?: number;
}

/** How it goes; times are Unix milliseconds. */
export interface BackupState {
  /** Of the newest backup of this installation in the folder, whoever made it; those dated in the future do not count. */
  readonly lastMadeAt: number | undefined;
  readonly bytes: number | undefined;
  /** Of this process. */
  readonly lastFailedAt: number | undefined;
  /** What went wrong with the last one; undefined: nothing. */
  readonly lastError: string | undefined;
  /** How long the last one took that this process made. */
  readonly durationMs: number | undefined;
  /** Since when one is being made by this process; undefined: none is. */
  readonly runningSince: number | undefined;
  /** How many this process began. */
  readonly runs: number;
  /** When the next one is due; undefined: never by itself. */
  readonly nextAt: number | undefined;
}

const SETTLE_MS = 30_000;
const LOOK_EVERY_MS = 15_000;
const LONGEST_MS = 6 * 3_600_000;
const TIMES_AS_LONG = 10;

/**
 * Makes a backup when one is due, one at a time, in a process of its own; one that was missed while the server was off is made up for. What
 * was made the folder says: nothing is kept beside it. A clock that is put forward makes one backup at most; put back, none twice.
 */
export class BackupSchedule {
  private readonly stopping = new AbortController();
  private working: Promise<void> | undefined;
  /** Up to then nothing has to be made any more. */
  private settledUpTo = 0;
  private current: Omit<BackupState, 'nextAt'> = { lastMadeAt: undefined, bytes: undefined, lastFailedAt: undefined, lastError: undefined, durationMs: undefined, runningSince: undefined, runs: 0 };

  constructor(private readonly options: BackupScheduleOptions) {}

  /** Begins; resolves at once. */
  start(): void {
    this.working ??= this.work();
  }

  /** Ends a backup that is being made. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await this.working;
  }

  /** How it goes. */
  state(): BackupState {
    const { schedule, clock } = this.options;
    return { ...this.current, nextAt: nextDue(schedule, clock.now()) };
  }

  private async work(): Promise<void> {
    const { signal } = this.stopping;
    const { schedule, clock, settleMs = SETTLE_MS, lookEveryMs = LOOK_EVERY_MS, isClockDoubted = () => false } = this.options;
    await this.removeHalf();
    await this.lookAtFolder();
    this.settledUpTo = this.current.lastMadeAt ?? 0;
    if (schedule === 'off') return;
    for (await pause(settleMs, signal); !signal.aborted; await pause(lookEveryMs, signal)) {
      const due = lastDue(schedule, clock.now()) ?? 0;
      if (due > this.settledUpTo && !isClockDoubted()) await this.make(due);
      await this.lookAtFolder();
    }
  }

  private async make(due: number): Promise<void> {
    const { clock, log, command } = this.options;
    this.settledUpTo = due; // one that fails is tried again when the next one is due
    const began = clock.monotonic();
    this.current = { ...this.current, runs: this.current.runs + 1, runningSince: clock.now() };
    const limitMs = Math.max(this.options.longestMs ?? LONGEST_MS, TIMES_AS_LONG * (this.current.durationMs ?? 0));
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), limitMs);
    const { told, error: said } = await runBackupCommand(command, AbortSignal.any([this.stopping.signal, limit.signal]));
    clearTimeout(timer);
    const error = limit.signal.aborted ? `it took longer than ${Math.round(limitMs / 60_000)} minutes and was ended: ${said}` : said;
    const durationMs = Math.round(clock.monotonic() - began);
    this.current = { ...this.current, runningSince: undefined };
    if (told) {
      this.current = { ...this.current, lastError: undefined, durationMs };
      for (const message of told.warnings) log.warn({ message }, 'backup.incomplete');
      log.info({ file: told.file, bytes: told.bytes, removed: told.removed.length, duration_ms: durationMs }, 'backup.made');
      return;
    }
    await this.removeHalf();
    if (this.stopping.signal.aborted) return;
    this.current = { ...this.current, lastFailedAt: clock.now(), lastError: error };
    log.error({ message: error, duration_ms: durationMs }, 'backup.failed');
  }

  /** Removes what a backup left that was killed, unless one is being made. */
  private async removeHalf(): Promise<void> {
    const { dir, dataDir, installationId, log } = this.options;
    const temp = tempFolderOf(dir, installationId);
    try {
      await stat(temp);
      const lock = findFileLock(join(dataDir, BACKUP_LOCK));
      if (!lock) return;
      await rm(temp, { recursive: true, force: true }).finally(() => lock.release());
      log.info({ folder: temp }, 'backup.half_removed');
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') log.warn({ err: error, folder: temp }, 'backup.half_not_removed');
    }
  }

  private async lookAtFolder(): Promise<void> {
    const { dir, installationId, clock } = this.options;
    try {
      const [newest] = upTo(await findBackupsOf(dir, installationId), clock.now());
      this.current = { ...this.current, lastMadeAt: newest?.createdAt, bytes: newest?.bytes };
    } catch {
      this.current = { ...this.current, lastMadeAt: undefined, bytes: undefined }; // no folder yet, or its disk is away: then there is no backup
    }
  }
}
