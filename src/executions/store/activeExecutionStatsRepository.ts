import type { Db, PreparedStatement } from '../../database';
import { EXECUTION_STATES, type ExecutionState, isFinal } from '../execution';

/** Statistics of executions that are not final, across all organizations. */
export interface ActiveExecutionStats {
  /** The number of executions per open state, counting at most 50,000 in total. */
  readonly states: ReadonlyMap<ExecutionState, number>;
  /**
   * The submission time of the oldest enqueued execution, Unix milliseconds; undefined if none is enqueued. In a long
   * queue, only part of it is searched.
   */
  readonly oldestWaiting: number | undefined;
}

/** Counting all rows blocks the process for a time that grows with their number; this many take 8 ms. */
const MAX_COUNTED_ROWS = 50_000;
const MAX_SCANNED = 500;
const OPEN_STATES = EXECUTION_STATES.filter((state) => !isFinal(state));

const STATES: PreparedStatement = {
  name: 'executions.openStates',
  sql: () =>
    `select ${OPEN_STATES.map((state) => `count(*) filter (where o.state = '${state}') as ${state}`).join(', ')} from (select e.state from executions e where e.final = 0 limit ?) o`,
};
// In queue order and in deadline order: no index is ordered by age.
const OLDEST_EXECUTION: PreparedStatement = {
  name: 'executions.oldestWaiting',
  sql: () => `select min(o.enqueued_at) as at from (
    select * from (select e.state, e.enqueued_at from executions e where e.state = 'enqueued' limit ?) q
    union all
    select * from (select e.state, e.enqueued_at from executions e where e.next_deadline is not null order by e.next_deadline limit ?) d
  ) o where o.state = 'enqueued'`,
};

/** Reads statistics of open executions across all organizations. */
export class ActiveExecutionStatsRepository {
  constructor(private readonly db: Db) {}

  /** Reads the statistics. Takes some milliseconds at most, because it reads a limited number of executions. */
  async read(): Promise<ActiveExecutionStats> {
    const [counts] = await this.db.all<Readonly<Record<ExecutionState, number>>>(STATES, [MAX_COUNTED_ROWS]);
    const [oldest] = await this.db.all<{ at: number | null }>(OLDEST_EXECUTION, [MAX_SCANNED, MAX_SCANNED]);
    return {
      states: new Map(OPEN_STATES.map((state) => [state, counts?.[state] ?? 0])),
      oldestWaiting: oldest?.at ?? undefined,
    };
  }
}
