import type { Database } from '../database';
import { ConnectionRepository } from './connectionRepository';
import type { ConnectionState, ConnectionStatuses } from './connectionStatuses';

/** Metrics of one enabled connection. */
export interface ConnectionMetric {
  readonly id: string;
  /** The id of its connector, for example `mqtt`. */
  readonly connector: string;
  readonly state: ConnectionState;
  /** The time of the current state, Unix milliseconds; undefined: unchanged since the server started. */
  readonly since: number | undefined;
}

const MAX_CONNECTIONS = 5000;

/** Returns the metrics of all enabled connections of all organizations, at most 5,000. */
export async function listConnectionMetrics(
  database: Database,
  statuses: ConnectionStatuses,
): Promise<ConnectionMetric[]> {
  const enabled = await new ConnectionRepository(database.db).listEnabledIds(MAX_CONNECTIONS);
  return enabled.map(({ id, connectorId: connector }) => {
    const { state, since } = statuses.getStatus({ id, enabled: true });
    return { id, connector, state, since };
  });
}
