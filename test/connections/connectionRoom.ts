import {
  Arrivals,
  ConnectionOpener,
  ConnectionRepository,
  connectionHandlers,
  ConnectionSecrets,
  ConnectionService,
  ConnectionStatuses,
  ConnectionTrials,
  ConnectionWatch,
  connectorHandlers,
  ConnectorHub,
  GatewayConnector,
  gatewayDefinition,
  gatewayHandlers,
  SecretBox,
  SecretKey,
} from '../../src/connections';
import { ConnectionServiceService } from '../../src/gen/connection/connection_service';
import { ConnectorServiceService } from '../../src/gen/connector/connector_service';
import { Cursors } from '../../src/kernel/pages';
import type { Services } from '../../src/rpc/services';
import { discoveredDeviceHandlers, DiscoveredDeviceService } from '../../src/telemetry';
import { engines, type TestDatabase, type TestEngine } from '../support/engines';
import { MemoryLog, startEdge, type TestEdge } from '../support/edge';
import { TestClock } from '../support/testClock';
import { FakeConnector } from './fakeConnector';
import { FakeEvents } from './fakeEvents';

/** The organizations of a test database. */
export const ORGANIZATIONS = ['org-1', 'org-2'] as const;

/** The room on a database of its own. */
export interface ConnectionRoom {
  readonly test: TestDatabase;
  readonly clock: TestClock;
  readonly log: MemoryLog;
  readonly service: ConnectionService;
  readonly hub: ConnectorHub;
  readonly opener: ConnectionOpener;
  readonly gateway: GatewayConnector;
  /** Serves the connector type FAKE. */
  readonly fake: FakeConnector;
  readonly statuses: ConnectionStatuses;
  readonly secrets: ConnectionSecrets;
  readonly trials: ConnectionTrials;
  readonly watch: ConnectionWatch;
  readonly events: FakeEvents;
  /** How many devices are bound, by connection. */
  readonly devices: Map<string, number>;
}

/** Makes the room; `helloTimeoutMs` is that of the gateway connector. `before`: on the database of another room, as after a restart. */
export async function openRoom(engine: TestEngine = engines()[0] as TestEngine, helloTimeoutMs?: number, before?: TestDatabase): Promise<ConnectionRoom> {
  const test = before ?? (await engine.createDatabase());
  const { database } = test;
  if (!before) await database.db.knex('organizations').insert(ORGANIZATIONS.map((id) => ({ id, name: id, name_folded: id, created_at: 1, updated_at: 1 })));
  const clock = new TestClock();
  const log = new MemoryLog();
  const statuses = new ConnectionStatuses(clock);
  const gateway = new GatewayConnector({ connections: new ConnectionRepository(database.db), statuses, arrivals: new Arrivals(clock), clock, log, ...(helloTimeoutMs && { helloTimeoutMs }) });
  const fake = new FakeConnector();
  const secrets = new ConnectionSecrets(new SecretBox(new SecretKey({ key: '', keyFile: '', dataDir: test.dataDir, log })));
  const opener = new ConnectionOpener({ secrets, statuses, log });
  const hub = new ConnectorHub([gateway, fake], (connection) => opener.open(connection));
  const devices = new Map<string, number>();
  const cursors = new Cursors(Buffer.from('a secret of the test'));
  const service = new ConnectionService({ database, clock, cursors, hub, statuses, secrets, onDeleted: () => {}, deviceCounts: async () => devices });
  const events = new FakeEvents();
  hub.start(events);
  const trials = new ConnectionTrials({ database, hub, secrets });
  const watch = new ConnectionWatch({ database, statuses, clock });
  return { test, clock, log, service, hub, opener, gateway, fake, statuses, secrets, trials, watch, events, devices };
}

/** A server in front of the room. */
export async function serveRoom(room: ConnectionRoom): Promise<TestEdge> {
  return await startEdge((server: Services) => {
    server.add(ConnectorServiceService, connectorHandlers(new Cursors(Buffer.from('a secret of the test'))));
    const discovered = new DiscoveredDeviceService({ database: room.test.database, cursors: new Cursors(Buffer.from('a secret of the test')) });
    server.add(ConnectionServiceService, { ...connectionHandlers({ ...room, connections: room.service }), ...discoveredDeviceHandlers(discovered) });
    server.add(gatewayDefinition, gatewayHandlers(room.gateway));
  });
}
