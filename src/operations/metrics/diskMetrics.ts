import { statfsSync } from 'node:fs';
import type { Database, DiskState } from '../../database';
import { gauge, type Family } from './family';

const STATES: readonly DiskState[] = ['ok', 'full', 'read_only'];

/** The disk of the data folder. */
export function diskFamilies({ database: { disk }, dataDir }: { readonly database: Pick<Database, 'disk'>; readonly dataDir: string }): Family[] {
  return [
    gauge('plantroom_data_folder_free_bytes', 'What the user of the server may still write on the disk of the data folder.', () => disk.facts().freeBytes),
    gauge('plantroom_data_folder_size_bytes', 'The size of that disk.', () => sizeOf(dataDir)),
    {
      name: 'plantroom_storage_state',
      help: '1 for the state in which the storage is: ok; full or read_only: only what clears up is taken.',
      type: 'gauge',
      labels: ['state'],
      samples: () => STATES.map((state) => ({ labels: [state], value: disk.state() === state ? 1 : 0 })),
    },
    gauge('plantroom_reserve_wanted_bytes', 'What the reserve is to keep for cleaning up when the disk is full.', () => disk.facts().reserveBytes),
    gauge('plantroom_reserve_kept_bytes', 'What it keeps.', () => disk.facts().keptBytes),
  ];
}

function sizeOf(dataDir: string): number | undefined {
  try {
    const { blocks, bsize } = statfsSync(dataDir);
    return blocks * bsize;
  } catch {
    return undefined; // the folder is away: others say so
  }
}
