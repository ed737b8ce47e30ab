import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { ExecutionState } from '../execution';
import { ExecutionStore } from '../changes/executionStore';
import { RestoredRepository } from '../store/restoredRepository';

/** Devices per transaction. A commit for each device would be most of the work. */
const DEVICE_BATCH_SIZE = 50;
/**
 * More events than an organization can have had between the backup and the restore, so that no watcher resumes at a new
 * event by mistake.
 */
const SKIPPED_POSITIONS = 1_000_000_000;

/** Dependencies of expireRestoredExecutions. */
interface ExpireRestoredOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** When the backup was created, ISO 8601; logged with each execution. */
  readonly backupCreatedAt: string;
}

/**
 * T37 of the state machine: finishes every execution of every organization that was not final when the backup was
 * created. Its outcome since then is unknown, and sending it again could act twice. Run it only while no server uses
 * the database. The next run completes an interrupted one. Returns the number of executions per state.
 */
export async function expireRestoredExecutions({
  database,
  clock,
  backupCreatedAt,
}: ExpireRestoredOptions): Promise<ReadonlyMap<ExecutionState, number>> {
  const executionStore = new ExecutionStore({ clock, onCommitted: () => {} }); // no server is running that could be notified
  const countByState = new Map<ExecutionState, number>();
  await database.transaction(async (db) => await new RestoredRepository(db).skipPositions(SKIPPED_POSITIONS));
  for (;;) {
    const states = await database.transaction(
      async (db) => await finishBatch(db, executionStore, { backup_created_at: backupCreatedAt }),
    );
    if (states.length === 0) return countByState;
    for (const state of states) countByState.set(state, (countByState.get(state) ?? 0) + 1);
    await yieldToEventLoop();
  }
}

/** Finishes the executions of some devices and returns their former states; empty if there are no more. */
async function finishBatch(
  db: Db,
  executionStore: ExecutionStore,
  data: Readonly<Record<string, unknown>>,
): Promise<ExecutionState[]> {
  const open = new RestoredRepository(db);
  const states: ExecutionState[] = [];
  for (let deviceCount = 0; deviceCount < DEVICE_BATCH_SIZE; deviceCount++) {
    const executions = await open.listOpenOfFirstDevice();
    const [first] = executions;
    if (!first) break;
    const changes = executions.flatMap(
      (execution) => executionStore.plan(execution, { kind: 'restored' }, { source: 'restore', data }) ?? [],
    );
    const stored = await executionStore.save(db, first.organizationId, changes);
    if (stored.length === 0)
      throw new Error(
        `execution ${first.id} could not be finished: another process is writing to the restored database; stop it and restore again`,
      );
    states.push(...stored.map(({ before }) => before.state));
  }
  return states;
}
