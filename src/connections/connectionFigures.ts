import type { Database } from '../database';
import { ConnectionRepository } from './connectionRepository';
import type { ConnectionState, ConnectionStatuses } from './connectionStatuses';

/** How one connection that is switched on is doing. */
export interface ConnectionFigure {
  readonly id: string;
  /** The id of its connector: `mqtt`. */
  readonly connector: string;
  readonly state: ConnectionState;
  /** Since when, Unix milliseconds; undefined: not since the server started. */
  readonly since: number | undefined;
}

const MOST = 5000;

/** Every connection that is switched on, of all organizations, at most 5,000. */
export async function connectionFigures(database: Database, statuses: ConnectionStatuses): Promise<ConnectionFigure[]> {
  const enabled = await new ConnectionRepository(database.db).enabled(MOST);
  return enabled.map(({ id, connectorId: connector }) => {
    const { state, since } = statuses.of({ id, enabled: true });
    return { id, connector, state, since };
  });
}
