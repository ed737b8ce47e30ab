import {
  MonotonicTimestamps,
  ConnectionFactory,
  ConnectionRepository,
  createConnectionHandlers,
  ConnectionSecrets,
  ConnectionService,
  ConnectionStatuses,
  ConnectionTester,
  ConnectionWatch,
  createConnectorHandlers,
  ConnectorHub,
  GatewayConnector,
  gatewayDefinition,
  gatewayHandlers,
  SecretCipher,
  SecretKey,
} from '../../src/connections';
import { ConnectionServiceService } from '../../src/gen/connection/connection_service';
import { ConnectorServiceService } from '../../src/gen/connector/connector_service';
import { Cursors } from '../../src/kernel/pages';
import type { GrpcLimits } from '../../src/api/limits';
import type { Services } from '../../src/api/services';
import { discoveredDeviceHandlers, DiscoveredDeviceService } from '../../src/telemetry';
import { engines, type TestDatabase, type TestEngine } from '../support/engines';
import { MemoryLog, startEdge, type TestEdge } from '../support/edge';
import { TestClock } from '../support/testClock';
import { FakeConnector } from './fakeConnector';
import { FakeEvents } from './fakeEvents';

/** The organizations of a test database. */
export const ORGANIZATIONS = ['org-1', 'org-2'] as const;

/** The connections module on a new database. */
export interface ConnectionFixture {
  readonly test: TestDatabase;
  readonly clock: TestClock;
  readonly log: MemoryLog;
  readonly service: ConnectionService;
  readonly hub: ConnectorHub;
  readonly opener: ConnectionFactory;
  readonly gateway: GatewayConnector;
  /** The connector of the type FAKE. */
  readonly fake: FakeConnector;
  readonly statuses: ConnectionStatuses;
  readonly secrets: ConnectionSecrets;
  readonly trials: ConnectionTester;
  readonly watch: ConnectionWatch;
  readonly events: FakeEvents;
  /** The number of bound devices of each connection. */
  readonly devices: Map<string, number>;
}

/**
 * Opens the fixture; `helloTimeoutMs` is that of the gateway connector. `before` is the database of an earlier fixture,
 * as after a restart.
 */
export async function openFixture(
  engine: TestEngine = engines()[0] as TestEngine,
  helloTimeoutMs?: number,
  before?: TestDatabase,
): Promise<ConnectionFixture> {
  const test = before ?? (await engine.createDatabase());
  const { database } = test;
  if (!before)
    await database.db
      .knex('organizations')
      .insert(ORGANIZATIONS.map((id) => ({ id, name: id, name_folded: id, created_at: 1, updated_at: 1 })));
  const clock = new TestClock();
  const log = new MemoryLog();
  const statuses = new ConnectionStatuses(clock);
  const gateway = new GatewayConnector({
    connections: new ConnectionRepository(database.db),
    statuses,
    arrivals: new MonotonicTimestamps(clock),
    clock,
    log,
    ...(helloTimeoutMs && { helloTimeoutMs }),
  });
  const fake = new FakeConnector();
  const secrets = new ConnectionSecrets(
    new SecretCipher(new SecretKey({ key: '', keyFile: '', dataDir: test.dataDir, log })),
  );
  const opener = new ConnectionFactory({ secrets, statuses, log });
  const hub = new ConnectorHub([gateway, fake], (connection) => opener.open(connection));
  const devices = new Map<string, number>();
  const cursors = new Cursors(Buffer.from('a secret of the test'));
  const service = new ConnectionService({
    database,
    clock,
    cursors,
    hub,
    statuses,
    secrets,
    onDeleted: () => {},
    deviceCounts: async () => devices,
  });
  const events = new FakeEvents();
  hub.start(events);
  const trials = new ConnectionTester({ database, hub, secrets, statuses });
  const watch = new ConnectionWatch({ database, statuses, clock });
  return { test, clock, log, service, hub, opener, gateway, fake, statuses, secrets, trials, watch, events, devices };
}

/** Starts a server in front of the fixture. */
export async function serveFixture(fixture: ConnectionFixture, limits: Partial<GrpcLimits> = {}): Promise<TestEdge> {
  return await startEdge(
    (server: Services) => {
      server.addService(
        ConnectorServiceService,
        createConnectorHandlers(new Cursors(Buffer.from('a secret of the test'))),
      );
      const discovered = new DiscoveredDeviceService({
        database: fixture.test.database,
        cursors: new Cursors(Buffer.from('a secret of the test')),
      });
      server.addService(ConnectionServiceService, {
        ...createConnectionHandlers({ ...fixture, tester: fixture.trials, connections: fixture.service }),
        ...discoveredDeviceHandlers(discovered),
      });
      server.addService(gatewayDefinition, gatewayHandlers(fixture.gateway));
    },
    { limits },
  );
}
