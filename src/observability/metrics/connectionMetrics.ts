import type { ConnectionMetric, ConnectionState } from '../../connections';
import type { Clock } from '../../kernel/clock';
import type { Counter } from '../../kernel/counter';
import type { MetricFamily } from './metricFamily';
import { memoizeFor } from './memoizeFor';

const CACHE_MS = 5000;
/**
 * The maximum number of labelled connections, those that are down for longest, because the number of label values must
 * be bounded.
 */
const MAX_LABELLED_CONNECTIONS = 200;
const STATES: readonly ConnectionState[] = ['connecting', 'connected', 'degraded', 'disconnected', 'error'];
const UP_STATES: ReadonlySet<ConnectionState> = new Set(['connected', 'degraded']);

/**
 * Creates the metrics of the enabled connections of all organizations. A connection that has not been up since the
 * start counts as down since the start.
 */
export function createConnectionFamilies({
  connections,
  dataWarnings,
  clock,
}: {
  readonly connections: () => Promise<readonly ConnectionMetric[]>;
  /** By connector and code of the warning, such as `mqtt uplinks_rejected`. */
  readonly dataWarnings: Pick<Counter, 'entries'>;
  readonly clock: Clock;
}): MetricFamily[] {
  const readConnections = memoizeFor(CACHE_MS, async () => await connections());
  const startedAt = clock.now();
  return [
    {
      name: 'plantroom_connections',
      help: 'Enabled connections by connector and state.',
      type: 'gauge',
      labels: ['connector', 'state'],
      samples: async () => {
        const byConnector = Map.groupBy(await readConnections(), ({ connector }) => connector);
        return [...byConnector].flatMap(([connector, connectionsOfConnector]) =>
          STATES.map((state) => ({
            labels: [connector, state],
            value: connectionsOfConnector.filter((connection) => connection.state === state).length,
          })),
        );
      },
    },
    {
      name: 'plantroom_connection_down_seconds',
      help: `How long an enabled connection has been down, for the ${MAX_LABELLED_CONNECTIONS} that are down longest. \`connection\` is its id in the API.`,
      type: 'gauge',
      labels: ['connection', 'connector'],
      samples: async () => {
        const now = clock.now();
        const down = (await readConnections())
          .filter(({ state }) => !UP_STATES.has(state))
          .map(({ id, connector, since = startedAt }) => ({
            labels: [id, connector],
            value: Math.max(0, now - since) / 1000,
          }));
        return down.toSorted((a, b) => b.value - a.value).slice(0, MAX_LABELLED_CONNECTIONS);
      },
    },
    {
      name: 'plantroom_data_warnings_total',
      help: 'Received messages that could not be read or stored completely, by connector and warning of the connection (`uplinks_rejected`, `uplinks_unreadable`, `sample_times_unreadable`).',
      type: 'counter',
      labels: ['connector', 'code'],
      samples: () => Array.from(dataWarnings.entries(), ([key, value]) => ({ labels: key.split(' '), value })),
    },
  ];
}
