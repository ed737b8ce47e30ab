// The program of the threads that fold the write-ahead log into the database file, and look for damage in it, so that nobody waits for the
// disk meanwhile.
import { parentPort, workerData } from 'node:worker_threads';
import { messageOf } from '../translate';
import type { CheckpointReport, CheckpointRequest, CheckpointStart } from './checkpoints';
import { lookThrough } from './damage';
import { openConnection } from './sqliteConnection';

const { file, engine } = workerData as CheckpointStart;
const connection = openConnection(file, { busyTimeoutMs: 0, engine });

parentPort?.on('message', (request: CheckpointRequest) => {
  if (request === 'close') {
    connection.close();
    parentPort?.close();
    return;
  }
  parentPort?.postMessage(request === 'fold' ? fold() : lookThrough(connection, request === 'lookWhole'), []);
});

function fold(): CheckpointReport {
  try {
    const { log = 0, checkpointed = 0 } = connection.first<{ log: number; checkpointed: number }>('pragma wal_checkpoint(passive)') ?? {};
    return { frames: log, left: log - checkpointed, error: undefined };
  } catch (error) {
    return { frames: 0, left: 0, error: messageOf(error) };
  }
}
