import {
  ChirpStackConnector,
  listConnectionMetrics,
  ConnectionFactory,
  ConnectionRepository,
  ConnectionSecrets,
  ConnectionService,
  ConnectionStatuses,
  ConnectionTester,
  ConnectionWatch,
  ConnectorHub,
  createConnectionHandlers,
  createConnectorHandlers,
  GatewayConnector,
  gatewayHandlers,
  MonotonicTimestamps,
  MqttConnector,
  SecretCipher,
  SecretKey,
} from '../../connections';
import type { Cursors } from '../../kernel/pages';
import type { Foundation } from '../foundation';

/** The connectors and what they share. */
export type ConnectorModule = ReturnType<typeof createConnectors>;

/** Creates the connectors of all types and the hub that commands and uplinks pass through. */
export function createConnectors({ config, database, clock, log }: Foundation) {
  const statuses = new ConnectionStatuses(clock);
  const shared = { statuses, arrivals: new MonotonicTimestamps(clock), clock, log };
  const secretKey = new SecretKey({ ...config.secrets, dataDir: config.data.dir, log });
  const secrets = new ConnectionSecrets(new SecretCipher(secretKey));
  const factory = new ConnectionFactory({ secrets, statuses, log });
  const gateway = new GatewayConnector({ ...shared, connections: new ConnectionRepository(database.db) });
  const hub = new ConnectorHub([gateway, new MqttConnector(shared), new ChirpStackConnector(shared)], (connection) =>
    factory.open(connection),
  );
  return {
    hub,
    factory,
    statuses,
    secrets,
    gatewayHandlers: gatewayHandlers(gateway),
    /** Reads the status of each enabled connection, for metrics. */
    readMetrics: async () => await listConnectionMetrics(database, statuses),
  };
}

/** Creates the connections module. `hooks` connect it with executions and devices. */
export function createConnections(
  { database, clock }: Foundation,
  { hub, statuses, secrets }: ConnectorModule,
  cursors: Cursors,
  hooks: Pick<ConstructorParameters<typeof ConnectionService>[0], 'onDeleted' | 'deviceCounts'>,
) {
  const service = new ConnectionService({ database, clock, cursors, hub, statuses, secrets, ...hooks });
  return {
    service,
    connectionHandlers: createConnectionHandlers({
      connections: service,
      tester: new ConnectionTester({ database, hub, secrets, statuses }),
      watch: new ConnectionWatch({ database, statuses, clock }),
    }),
    connectorHandlers: createConnectorHandlers(cursors),
  };
}
