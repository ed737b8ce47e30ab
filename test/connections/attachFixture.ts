import type { GrpcLimits } from '../../src/api/limits';
import type { Connection as Stored, ConnectionPolicy, Downlink } from '../../src/connections';
import {
  type Connection,
  ConnectionServiceClient,
  type ConnectionStatus,
  type GetConnectionRequest,
} from '../../src/gen/connection/connection_service';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { call, type TestEdge } from '../support/edge';
import { openFixture, serveFixture, type ConnectionFixture } from './connectionFixture';
import { GatewayClient } from './gatewayClient';

/** A connection fixture behind a real server, with one gateway connection in org-1 and a key with all scopes. */
export interface AttachFixture extends ConnectionFixture {
  readonly edge: TestEdge;
  readonly connection: Stored;
  /** Opens a stream. */
  open(key?: string, organizationId?: string): GatewayClient;
  /** Returns the status of the connection as a client sees it. */
  status(): Promise<ConnectionStatus>;
  /** Creates a command for the connection that expires in a minute. */
  downlink(executionId: string, overrides?: Partial<Downlink>): Downlink;
  stop(): Promise<void>;
}

/** The request headers with the key that has all scopes. */
export const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };

/** Opens the fixture; `policy` is that of the connection. */
export async function openAttachFixture(
  policy: ConnectionPolicy = {},
  helloTimeoutMs?: number,
  limits: Partial<GrpcLimits> = {},
): Promise<AttachFixture> {
  const fixture = await openFixture(undefined, helloTimeoutMs);
  const edge = await serveFixture(fixture, limits);
  edge.keys.add('key');
  const { connection } = await fixture.service.create('org-1', {
    connectorId: 'gateway',
    name: 'Plant room',
    description: '',
    enabled: true,
    configuration: {},
    policy,
  });
  const gateways = edge.client(GatewayServiceClient);
  const connections = edge.client(ConnectionServiceClient);
  const get = connections.getConnection.bind(connections);
  return {
    ...fixture,
    edge,
    connection,
    open: (key = 'key', organizationId = 'org-1') => new GatewayClient(gateways, key, organizationId),
    status: async () =>
      (await call<GetConnectionRequest, Connection>(get, { id: connection.id, organizationId: '' }, FIELDS))
        .status as ConnectionStatus,
    downlink: (executionId, overrides = {}) => ({
      organizationId: 'org-1',
      connectionId: connection.id,
      executionId,
      attempt: 1,
      clientDeviceId: 'device-1',
      deadline: fixture.clock.now() + 60_000,
      payload: { kind: 'json', value: { on: true } },
      fPort: undefined,
      confirmed: false,
      topic: '',
      ...overrides,
    }),
    stop: async () => {
      await edge.stop();
      await fixture.test.drop();
    },
  };
}
