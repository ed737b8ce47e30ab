import type { Connection as Stored, ConnectionPolicy, Downlink } from '../../src/connections';
import { type Connection, ConnectionServiceClient, type ConnectionStatus, type GetConnectionRequest } from '../../src/gen/connection/connection_service';
import { GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { call, type TestEdge } from '../support/edge';
import { openRoom, serveRoom, type ConnectionRoom } from './connectionRoom';
import { GatewayClient } from './gatewayClient';

/** The room behind a real server, with one gateway connection in org-1 and a key for all of it. */
export interface AttachRoom extends ConnectionRoom {
  readonly edge: TestEdge;
  readonly connection: Stored;
  /** Opens a stream. */
  open(key?: string, organizationId?: string): GatewayClient;
  /** The status of the connection, as a client sees it. */
  status(): Promise<ConnectionStatus>;
  /** A command for the connection, due in a minute. */
  downlink(executionId: string, overrides?: Partial<Downlink>): Downlink;
  stop(): Promise<void>;
}

/** The headers of a call by the key for everything. */
export const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };

/** Opens it; `policy` is that of the connection. */
export async function openAttachRoom(policy: ConnectionPolicy = {}, helloTimeoutMs?: number): Promise<AttachRoom> {
  const room = await openRoom(undefined, helloTimeoutMs);
  const edge = await serveRoom(room);
  edge.keys.add('key');
  const { connection } = await room.service.create('org-1', { connectorId: 'gateway', name: 'Plant room', description: '', enabled: true, configuration: {}, policy });
  const gateways = edge.client(GatewayServiceClient);
  const connections = edge.client(ConnectionServiceClient);
  const get = connections.getConnection.bind(connections);
  return {
    ...room,
    edge,
    connection,
    open: (key = 'key', organizationId = 'org-1') => new GatewayClient(gateways, key, organizationId),
    status: async () => (await call<GetConnectionRequest, Connection>(get, { id: connection.id, organizationId: '' }, FIELDS)).status as ConnectionStatus,
    downlink: (executionId, overrides = {}) => ({
      organizationId: 'org-1',
      connectionId: connection.id,
      executionId,
      attempt: 1,
      clientDeviceId: 'device-1',
      deadline: room.clock.now() + 60_000,
      payload: { kind: 'json', value: { on: true } },
      fPort: undefined,
      confirmed: false,
      topic: '',
      ...overrides,
    }),
    stop: async () => {
      await edge.stop();
      await room.test.drop();
    },
  };
}
