import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Database, Db } from '../../database';
import type { Clock } from '../../kernel/clock';
import type { ExecutionState } from '../execution';
import { Ledger } from '../ledger/ledger';
import { RestoredRepository } from '../store/restoredRepository';

/** Devices that share a transaction: a commit for each would be most of the work. */
const DEVICES_AT_ONCE = 50;
/** More than an organization's events can have been between the backup and what it is restored after: who watched them resumes at none of the new ones by mistake. */
const LOST_POSITIONS = 1_000_000_000;

/** What the ending of restored executions needs. */
export interface EndRestoredOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** When the backup was made, ISO 8601; it stands in the log of each. */
  readonly backupCreatedAt: string;
}

/**
 * T37: ends every execution of every organization that was not final when the backup was made. What became of it since then nobody knows,
 * and sending it again could act twice. Only while no server works on the database; what an interrupted run left, the next one ends.
 * Returns how many were in which state.
 */
export async function endRestored({ database, clock, backupCreatedAt }: EndRestoredOptions): Promise<ReadonlyMap<ExecutionState, number>> {
  const ledger = new Ledger({ clock, onCommitted: () => {} }); // nobody serves who could be told
  const ended = new Map<ExecutionState, number>();
  await database.transaction(async (db) => await new RestoredRepository(db).skipPositions(LOST_POSITIONS));
  for (;;) {
    const states = await database.transaction(async (db) => await endSome(db, ledger, { backup_created_at: backupCreatedAt }));
    if (states.length === 0) return ended;
    for (const state of states) ended.set(state, (ended.get(state) ?? 0) + 1);
    await othersTurn();
  }
}

/** Ends those of some devices; the states that they were in. None: there are no more. */
async function endSome(db: Db, ledger: Ledger, data: Readonly<Record<string, unknown>>): Promise<ExecutionState[]> {
  const open = new RestoredRepository(db);
  const states: ExecutionState[] = [];
  for (let device = 0; device < DEVICES_AT_ONCE; device++) {
    const executions = await open.someOpen();
    const [first] = executions;
    if (!first) break;
    const changes = executions.flatMap((execution) => ledger.plan(execution, { kind: 'restored' }, { source: 'restore', data }) ?? []);
    const stored = await ledger.store(db, first.organizationId, changes);
    if (stored.length === 0) throw new Error(`execution ${first.id} could not be ended: somebody else works on the restored database`);
    states.push(...stored.map(({ before }) => before.state));
  }
  return states;
}
