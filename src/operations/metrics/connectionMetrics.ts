import type { ConnectionFigure, ConnectionState } from '../../connections';
import type { Clock } from '../../kernel/clock';
import type { Family } from './family';
import { remembered } from './remembered';

const FRESH_MS = 5000;
/** So many of those that are down are named, those that are for longest: a label needs an end. */
const MOST_NAMED = 200;
const STATES: readonly ConnectionState[] = ['connecting', 'connected', 'degraded', 'disconnected', 'error'];
const UP: ReadonlySet<ConnectionState> = new Set(['connected', 'degraded']);

/** The connections that are switched on, of all organizations; `since` where one has not been up since the start. */
export function connectionFamilies({ connections, clock }: { readonly connections: () => Promise<readonly ConnectionFigure[]>; readonly clock: Clock }): Family[] {
  const figures = remembered(FRESH_MS, async () => await connections());
  const startedAt = clock.now();
  return [
    {
      name: 'plantroom_connections',
      help: 'Connections that are switched on, by connector and state.',
      type: 'gauge',
      labels: ['connector', 'state'],
      samples: async () => {
        const byConnector = Map.groupBy(await figures(), ({ connector }) => connector);
        return [...byConnector].flatMap(([connector, all]) => STATES.map((state) => ({ labels: [connector, state], value: all.filter((one) => one.state === state).length })));
      },
    },
    {
      name: 'plantroom_connection_down_seconds',
      help: `How long a connection that is switched on is down; only while it is, and of the ${MOST_NAMED} that are for longest. \`connection\` is its id, by which the API knows it.`,
      type: 'gauge',
      labels: ['connection', 'connector'],
      samples: async () => {
        const now = clock.now();
        const down = (await figures()).filter(({ state }) => !UP.has(state)).map(({ id, connector, since = startedAt }) => ({ labels: [id, connector], value: Math.max(0, now - since) / 1000 }));
        return down.toSorted((one, other) => other.value - one.value).slice(0, MOST_NAMED);
      },
    },
  ];
}
