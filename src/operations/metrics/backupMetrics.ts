import { type BackupFile, findBackupsOf, upTo } from '../backup/backupFiles';
import { longestInterval } from '../backup/schedule';
import { gauge, type Family } from './family';
import { remembered } from './remembered';
import { withinLimit } from './withinLimit';

/** What is looked at of backups. */
export interface BackupSource {
  /** As cron writes it, or `off`. */
  readonly schedule: string;
  readonly dir: string;
  readonly installationId: string;
}

const FRESH_MS = 30_000;
/** A folder that has not answered by then counts as away: the disk of another machine may hang for hours. */
const LONGEST_MS = 2000;

/** The backups of this installation, whoever made them: only whole ones bear their name. None where the folder cannot be looked into. */
export function backupFamilies({ schedule, dir, installationId }: BackupSource): Family[] {
  const look = withinLimit(LONGEST_MS, async () => await findBackupsOf(dir, installationId).catch(() => []), []);
  const backups = remembered(FRESH_MS, look);
  const newest = async (): Promise<BackupFile | undefined> => upTo(await backups(), Date.now())[0];
  return [
    gauge('plantroom_backup_scheduled', '1 where the server makes backups by itself, else 0.', () => (schedule === 'off' ? 0 : 1)),
    gauge('plantroom_backup_interval_seconds', 'The longest time between two of them, by the schedule; only where there is one.', () => intervalOf(schedule)),
    gauge('plantroom_backup_last_success_timestamp_seconds', 'When the newest whole backup was made, Unix seconds; 0: there is none, or the folder cannot be read. Those dated in the future do not count.', async () => ((await newest())?.createdAt ?? 0) / 1000),
    gauge('plantroom_backup_last_size_bytes', 'How large it is; only where there is one.', async () => (await newest())?.bytes),
    gauge('plantroom_backups', 'How many whole backups there are.', async () => (await backups()).length),
  ];
}

function intervalOf(schedule: string): number | undefined {
  const interval = longestInterval(schedule, Date.now());
  return interval === undefined ? undefined : interval / 1000;
}
