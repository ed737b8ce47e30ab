import { status } from '@grpc/grpc-js';
import {
  type Connection,
  ConnectionServiceClient,
  ConnectionState,
  type CreateConnectionRequest,
  type UpdateConnectionRequest,
} from '../../src/gen/connection/connection_service';
import { ConnectorServiceClient } from '../../src/gen/connector/connector_service';
import { call, callFails, type TestEdge } from '../support/edge';
import { openFixture, serveFixture, type ConnectionFixture } from './connectionFixture';

const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const FOREIGN_HEADERS = { 'x-api-key': 'foreign', 'x-organization-id': 'org-2' };
const toCreate = (overrides: Partial<CreateConnectionRequest> = {}): CreateConnectionRequest => ({
  organizationId: '',
  connectorId: 'gateway',
  name: 'Plant room',
  configuration: undefined,
  policy: undefined,
  ...overrides,
});
const toUpdate = (id: string, overrides: Partial<UpdateConnectionRequest> = {}): UpdateConnectionRequest => ({
  id,
  organizationId: '',
  configuration: undefined,
  policy: undefined,
  ...overrides,
});

describe('the connection service API', () => {
  let fixture: ConnectionFixture;
  let edge: TestEdge;
  let client: ConnectionServiceClient;
  beforeAll(async () => {
    fixture = await openFixture();
    edge = await serveFixture(fixture);
    edge.keys.add('key');
    edge.keys.add('foreign', { organizationId: 'org-2' });
    client = edge.client(ConnectionServiceClient);
  });
  afterAll(async () => {
    await edge.stop();
    await fixture.test.drop();
  });

  const create = async (request: CreateConnectionRequest) =>
    await call<CreateConnectionRequest, Connection>(client.createConnection.bind(client), request, FIELDS);

  it('creates a connection with its defaults and shows it', async () => {
    const created = await create(toCreate({ name: '  Roof  ' }));
    expect(created).toMatchObject({
      organizationId: 'org-1',
      connectorId: 'gateway',
      name: 'Roof',
      description: '',
      enabled: true,
      configuration: {},
      deviceCount: 0,
      etag: '"1"',
    });
    expect(created.policy).toEqual({
      queueLimit: undefined,
      sleepy: undefined,
      deliveryTimeout: undefined,
      ackTimeout: undefined,
      maxInFlight: undefined,
      implicitAckTimeout: undefined,
      convergenceTimeout: undefined,
      uplinkInterval: undefined,
    });
    expect(created.status).toEqual({
      state: ConnectionState.CONNECTION_STATE_DISCONNECTED,
      since: undefined,
      lastError: '',
      lastMessageAt: undefined,
      warnings: [],
      software: '',
      dataWarnings: [],
    });
    expect(
      await call<{ id: string; organizationId: string }, Connection>(
        client.getConnection.bind(client),
        { id: created.id, organizationId: '' },
        FIELDS,
      ),
    ).toEqual(created);
  });

  it('reports all violations of a request together', async () => {
    const request = toCreate({
      name: ' ',
      connectorId: 'pigeon',
      policy: {
        queueLimit: 0,
        maxInFlight: 1001,
        implicitAckTimeout: 0,
        convergenceTimeout: 604_801,
        uplinkInterval: 2_592_001,
      },
    });
    const error = await callFails(client.createConnection.bind(client), request, FIELDS);
    expect(error).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(error.fields.toSorted()).toEqual([
      'connectorId',
      'name',
      'policy.convergenceTimeout',
      'policy.implicitAckTimeout',
      'policy.maxInFlight',
      'policy.queueLimit',
      'policy.uplinkInterval',
    ]);
  });

  it('does not reveal the content of a configuration that is too large', async () => {
    const error = await callFails(
      client.createConnection.bind(client),
      toCreate({ connectorId: 'mqtt', configuration: { nope: 'x'.repeat(262_144) } }),
      FIELDS,
    );
    expect(error).toMatchObject({ reason: 'validation_failed', fields: ['configuration'] });
  });

  it('updates, disables and deletes a connection, and checks its etag', async () => {
    const { id } = await create(toCreate({ name: 'Cellar', policy: { sleepy: false } }));
    const update = async (request: UpdateConnectionRequest) =>
      await call<UpdateConnectionRequest, Connection>(client.updateConnection.bind(client), request, FIELDS);
    expect(await update(toUpdate(id, { enabled: false, etag: '"1"' }))).toMatchObject({
      name: 'Cellar',
      enabled: false,
      policy: { sleepy: false },
      etag: '"2"',
      status: { state: ConnectionState.CONNECTION_STATE_DISABLED },
    });
    expect(
      await callFails(client.updateConnection.bind(client), toUpdate(id, { name: 'x', etag: '"1"' }), FIELDS),
    ).toMatchObject({ code: status.ABORTED, reason: 'version_conflict' });
    expect(
      await callFails(
        client.deleteConnection.bind(client),
        { id, organizationId: '', etag: undefined },
        FOREIGN_HEADERS,
      ),
    ).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    await call(client.deleteConnection.bind(client), { id, organizationId: '', etag: '"2"' }, FIELDS);
    expect(await callFails(client.getConnection.bind(client), { id, organizationId: '' }, FIELDS)).toMatchObject({
      reason: 'connection_not_found',
    });
  });

  it('lists only the connections of the organization', async () => {
    const list = client.listConnections.bind(client);
    const request = { organizationId: '', pageToken: '' };
    expect(
      (await call<typeof request, { connections: Connection[] }>(list, request, FIELDS)).connections.map(
        ({ name }) => name,
      ),
    ).toEqual(['Roof']);
    expect(await call(list, request, FOREIGN_HEADERS)).toEqual({ connections: [], nextPageToken: '' });
  });

  it('shows the connector catalogue', async () => {
    const connectors = edge.client(ConnectorServiceClient);
    const list: unknown = await call(
      connectors.listConnectors.bind(connectors),
      { organizationId: '', pageSize: 1, pageToken: '' },
      FIELDS,
    );
    expect(list).toMatchObject({
      nextPageToken: expect.any(String),
      connectors: [
        {
          id: 'gateway',
          type: 'gateway',
          capabilities: ['uplink', 'downlink', 'native_ack', 'cancel_command'],
          configurationSchema: { type: 'object', additionalProperties: false },
          secretFields: [],
        },
      ],
    });
    expect(
      await callFails(connectors.listConnectors.bind(connectors), { organizationId: '', pageToken: 'forged' }, FIELDS),
    ).toMatchObject({ reason: 'validation_failed' });
    expect(
      await callFails(connectors.getConnector.bind(connectors), { id: 'pigeon', organizationId: '' }, FIELDS),
    ).toMatchObject({ code: status.NOT_FOUND, reason: 'connector_not_found' });
  });
});
