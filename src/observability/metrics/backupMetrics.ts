import { type BackupFile, findBackupFiles, excludeFutureBackups } from '../../backup';
import { getMaxInterval } from '../../kernel/cronSchedule';
import { shareCall } from '../../kernel/withTimeout';
import { gauge, type MetricFamily } from './metricFamily';
import { memoizeFor } from './memoizeFor';

/** The sources of the backup metrics. */
export interface BackupSource {
  /** A cron expression, or `off`. */
  readonly schedule: string;
  readonly dir: string;
  readonly installationId: string;
}

const CACHE_MS = 30_000;
/** A folder that does not respond in this time counts as unavailable: a network share may hang for hours. */
const FOLDER_TIMEOUT_MS = 2000;

/**
 * Creates the metrics of the complete backups of this installation, made by any process. There are none if the folder
 * cannot be read.
 */
export function createBackupFamilies({ schedule, dir, installationId }: BackupSource): MetricFamily[] {
  const readFolder = shareCall(
    FOLDER_TIMEOUT_MS,
    async () => await findBackupFiles(dir, installationId).catch(() => []),
    [],
  );
  const readBackups = memoizeFor(CACHE_MS, readFolder);
  const findNewest = async (): Promise<BackupFile | undefined> =>
    excludeFutureBackups(await readBackups(), Date.now())[0];
  return [
    gauge('plantroom_backup_scheduled', '1 if backups are scheduled, else 0.', () => (schedule === 'off' ? 0 : 1)),
    gauge(
      'plantroom_backup_interval_seconds',
      'Longest time between two scheduled backups. Absent without a schedule.',
      () => getIntervalSeconds(schedule),
    ),
    gauge(
      'plantroom_backup_last_success_timestamp_seconds',
      'When the newest valid backup was made, Unix seconds. 0: none, or the folder cannot be read. Backups dated in the future do not count.',
      async () => ((await findNewest())?.createdAt ?? 0) / 1000,
    ),
    gauge(
      'plantroom_backup_last_size_bytes',
      'Size of the newest valid backup. Absent without one.',
      async () => (await findNewest())?.bytes,
    ),
    gauge('plantroom_backups', 'Number of valid backups.', async () => (await readBackups()).length),
  ];
}

/** Returns the longest time between two scheduled backups, in seconds; undefined without a schedule. */
function getIntervalSeconds(schedule: string): number | undefined {
  const interval = getMaxInterval(schedule, Date.now());
  return interval === undefined ? undefined : interval / 1000;
}
