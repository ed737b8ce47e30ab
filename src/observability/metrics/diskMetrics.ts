import { statfsSync } from 'node:fs';
import type { Database, DiskState } from '../../database';
import { gauge, type MetricFamily } from './metricFamily';

const STATES: readonly DiskState[] = ['ok', 'full', 'read_only'];

/** Creates the metrics of the data folder's disk. */
export function createDiskFamilies({
  database: { disk },
  dataDir,
}: {
  readonly database: Pick<Database, 'disk'>;
  readonly dataDir: string;
}): MetricFamily[] {
  return [
    gauge(
      'plantroom_data_dir_available_bytes',
      "Disk space of the data folder that is available to the server's user.",
      () => disk.getStatus().freeBytes,
    ),
    gauge('plantroom_data_dir_filesystem_size_bytes', 'Size of that disk.', () => getFilesystemSize(dataDir)),
    {
      name: 'plantroom_storage_state',
      help: '1 for the current storage state: ok, full or read_only (only writes that free space are accepted).',
      type: 'gauge',
      labels: ['state'],
      samples: () => STATES.map((state) => ({ labels: [state], value: disk.getState() === state ? 1 : 0 })),
    },
    gauge(
      'plantroom_disk_reserve_target_bytes',
      'Target size of the disk reserve, which is released when the disk is full.',
      () => disk.getStatus().reserveBytes,
    ),
    gauge(
      'plantroom_disk_reserve_bytes',
      'Current size of the disk reserve.',
      () => disk.getStatus().currentReserveBytes,
    ),
  ];
}

/** Returns the size of the disk in bytes; undefined: the folder is unavailable, which other metrics report. */
function getFilesystemSize(dataDir: string): number | undefined {
  try {
    const { blocks, bsize } = statfsSync(dataDir);
    return blocks * bsize;
  } catch {
    return undefined; // the folder is unavailable, which other metrics report
  }
}
