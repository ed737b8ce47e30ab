// The program of the threads that checkpoint the write-ahead log into the database file and check it for corruption, so
// that the main thread does not wait for the disk.
import { parentPort, workerData } from 'node:worker_threads';
import { formatMessage } from '../translate';
import type { CheckpointReport, CheckpointRequest, CheckpointStart } from './checkpoints';
import { checkIntegrity } from './integrity';
import { openConnection } from './sqliteConnection';

const { file, nativeModule } = workerData as CheckpointStart;
const connection = openConnection(file, { busyTimeoutMs: 0, nativeModule });

parentPort?.on('message', (request: CheckpointRequest) => {
  if (request === 'close') {
    connection.close();
    parentPort?.close();
    return;
  }
  parentPort?.postMessage(
    request === 'checkpoint' ? checkpoint() : checkIntegrity(connection, request === 'fullCheck'),
    [],
  );
});

/**
 * Copies the pages of the log into the database file without waiting for readers or writers. An error is reported, not
 * thrown.
 */
function checkpoint(): CheckpointReport {
  try {
    const { log = 0, checkpointed = 0 } =
      connection.getFirstRow<{ log: number; checkpointed: number }>('pragma wal_checkpoint(passive)') ?? {};
    return { frames: log, remaining: log - checkpointed, error: undefined };
  } catch (error) {
    return { frames: 0, remaining: 0, error: formatMessage(error) };
  }
}
