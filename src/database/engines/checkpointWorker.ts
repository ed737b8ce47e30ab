// The program of the thread that folds the write-ahead log into the database file, so that nobody waits for the disk meanwhile.
import { statSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { assetPath } from '../../kernel/assets';
import type { CheckpointReport, CheckpointRequest, CheckpointStart } from './checkpoints';
import { ENGINE, openConnection } from './sqliteConnection';

const { file, engine } = workerData as CheckpointStart;
// Two copies of SQLite in one process would not see each other's locks: the file must still be the one that the process has loaded.
if (statSync(assetPath(ENGINE)).ino !== engine) throw new Error('the program was replaced while it runs');
const connection = openConnection(file, { busyTimeoutMs: 100 });

parentPort?.on('message', (request: CheckpointRequest) => {
  if (request === 'close') {
    connection.close();
    parentPort?.close();
    return;
  }
  const row = connection.first<{ log: number }>(`pragma wal_checkpoint(${request})`);
  parentPort?.postMessage({ frames: row?.log ?? 0 } satisfies CheckpointReport, []);
});
