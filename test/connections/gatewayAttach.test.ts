import { status } from '@grpc/grpc-js';
import { ConnectionState } from '../../src/gen/connection/connection_service';
import { CommandSnapshotStatus } from '../../src/gen/gateway/v1/gateway_service';
import { ConnectionRepository } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { version } from '../../package.json';
import { openAttachFixture, type AttachFixture } from './attachFixture';
import { gate } from './fakeEvents';

describe('attaching a gateway', () => {
  let fixture: AttachFixture;
  beforeEach(async () => {
    fixture = await openAttachFixture();
  });
  afterEach(async () => await fixture.stop());

  const hello = (overrides: object = {}) => ({ connectionId: fixture.connection.id, ...overrides });

  it('sends the welcome after the commands that the gateway holds are settled', async () => {
    const settled = gate<void>();
    fixture.events.onAttached = async () => await settled.promise;
    const gateway = fixture.open();
    const known = [
      {
        executionId: 'e1',
        status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED,
        code: '',
        message: '',
        time: { seconds: 7, nanos: 0 },
      },
      {
        executionId: 'e2',
        status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_FAILED,
        code: '',
        message: 'stuck',
        time: undefined,
      },
      {
        executionId: 'e3',
        status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_EXPIRED,
        code: 'late',
        message: '',
        time: undefined,
      },
    ];
    gateway.hello(hello({ known }));
    await fixture.events.until(() => fixture.events.attachments.length === 1);
    const receipt = { receivedAt: fixture.clock.now(), clock: `${fixture.connection.id}/gateway-a` };
    expect(fixture.events.attachments).toEqual([
      {
        organizationId: 'org-1',
        connectionId: fixture.connection.id,
        peerId: 'gateway-a',
        bootId: 'boot-1',
        source: 'gateway:gateway-a',
        durable: true,
        known: [
          { executionId: 'e1', evidence: { kind: 'transport_ok', time: 7000, ...receipt } },
          {
            executionId: 'e2',
            evidence: { kind: 'negative', code: 'failed', message: 'stuck', time: undefined, ...receipt },
          },
          {
            executionId: 'e3',
            evidence: { kind: 'unreachable', code: 'late', message: '', time: undefined, ...receipt },
          },
        ],
        alsoHeld: [],
      },
    ]);
    expect(fixture.hub.peer(fixture.connection.id)).toBeUndefined();
    expect(await fixture.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISCONNECTED });
    settled.open();
    expect(await gateway.next('welcome')).toEqual({
      serverTime: { seconds: Math.floor(fixture.clock.now() / 1000), nanos: 678_000_000 },
      maxInFlight: 16,
      protocolVersion: 1,
      serverVersion: version,
    });
    expect(fixture.hub.peer(fixture.connection.id)).toMatchObject({
      peerId: 'gateway-a',
      bootId: 'boot-1',
      capacity: 16,
    });
    expect(fixture.events.readies).toEqual([fixture.connection.id]);
    expect(await fixture.status()).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_CONNECTED,
      lastError: '',
      warnings: [],
    });
  });

  it('ends a stream that starts with another message, or contains a second Hello or an unknown message', async () => {
    const early = fixture.open();
    early.received('e1');
    expect(await early.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['hello'] });
    const second = fixture.open();
    await second.attach(hello());
    second.hello(hello());
    expect(await second.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['hello'] });
    const empty = fixture.open();
    await empty.attach(hello());
    empty.send(undefined);
    expect(await empty.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['message'] });
    expect(await fixture.status()).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_DISCONNECTED,
      lastError: expect.stringContaining('validation_failed'),
    });
    const silent = fixture.open();
    silent.end();
    expect(await silent.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['hello'] });
  });

  it('ends a stream whose Hello violates the field rules, naming each field', async () => {
    const gateway = fixture.open();
    gateway.hello({ gatewayId: '', bootId: 'a b', store: 0 });
    expect(await gateway.ended).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      fields: ['hello.connectionId', 'hello.gatewayId', 'hello.bootId', 'hello.store'],
    });
  });

  it.each([
    ['unknown connection', 'key', 'org-1', status.NOT_FOUND, 'connection_not_found'],
    ['connection of another organization', 'foreign', 'org-2', status.NOT_FOUND, 'connection_not_found'],
    ['connection that the key does not name', 'narrow', 'org-1', status.NOT_FOUND, 'connection_not_found'],
    ['missing scope', 'reader', 'org-1', status.PERMISSION_DENIED, 'insufficient_scope'],
  ])('rejects: %s', async (name, key, organizationId, code, reason) => {
    fixture.edge.keys.add('foreign', { organizationId: 'org-2' });
    fixture.edge.keys.add('narrow', { connections: new Set(['another']) });
    fixture.edge.keys.add('reader', { scopes: new Set(['connections:read']) });
    const gateway = fixture.open(key, organizationId);
    gateway.hello(name === 'unknown connection' ? hello({ connectionId: 'nobody' }) : hello());
    expect(await gateway.ended).toMatchObject({ code, reason });
    expect(fixture.events.attachments).toEqual([]);
  });

  it('accepts a key that is restricted to the connection', async () => {
    fixture.edge.keys.add('named', { connections: new Set([fixture.connection.id]) });
    await fixture.open('named').attach(hello());
  });

  it('rejects a connection of another type and a disabled one', async () => {
    await new ConnectionRepository(fixture.test.database.db).create('org-1', {
      ...fixture.connection,
      id: 'broker',
      name: 'broker',
      connectorId: 'mqtt',
    });
    const other = fixture.open();
    other.hello(hello({ connectionId: 'broker' }));
    expect(await other.ended).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'not_a_gateway' });
    await switchTo(false);
    const gateway = fixture.open();
    gateway.hello(hello());
    expect(await gateway.ended).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'connection_disabled' });
    expect(await fixture.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISABLED });
    await switchTo(true);
    await fixture.open().attach(hello());
  });

  it('ends the stream when the connection is disabled, even during settlement', async () => {
    const gateway = fixture.open();
    await gateway.attach(hello());
    await switchTo(false);
    expect(await gateway.ended).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'connection_disabled' });
    expect(fixture.hub.peer(fixture.connection.id)).toBeUndefined();
    await switchTo(true);
    const settled = gate<void>();
    fixture.events.onAttached = async () => await settled.promise;
    const settling = fixture.open();
    settling.hello(hello());
    await fixture.events.until(() => fixture.events.attachments.length === 2);
    await switchTo(false);
    expect(await settling.ended).toMatchObject({ reason: 'connection_disabled' });
    settled.open();
  });

  it('ends the stream when the connection is deleted', async () => {
    const gateway = fixture.open();
    await gateway.attach(hello());
    await fixture.service.delete('org-1', fixture.connection.id, undefined);
    expect(await gateway.ended).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
  });

  it('ends the stream when the server stops', async () => {
    const gateway = fixture.open();
    await gateway.attach(hello());
    const stopped = fixture.edge.server.stop(1000, [fixture.edge.transport]);
    expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'shutting_down' });
    await stopped;
  });

  it('ends with OK when the gateway ends the stream, after the response to its last message', async () => {
    const gateway = fixture.open();
    await gateway.attach(hello());
    gateway.uplink('u1');
    gateway.end();
    expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'u1' });
    expect(await gateway.ended).toBeUndefined();
    expect(await fixture.status()).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_DISCONNECTED,
      lastError: '',
    });
  });

  it('reports why a gateway that disappeared is disconnected', async () => {
    const gateway = fixture.open();
    await gateway.attach(hello());
    fixture.clock.advance(1000);
    gateway.cancel();
    await fixture.log.until('gateway.detached');
    expect(await fixture.status()).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_DISCONNECTED,
      since: { nanos: 678_000_000 },
      lastError: expect.stringContaining('cancelled'),
    });
  });

  it('ends the stream and stays disconnected when the held commands cannot be settled', async () => {
    fixture.events.onAttached = async () =>
      await Promise.reject(new DomainError('unavailable', 'database_unavailable', 'the database is away; try again'));
    const gateway = fixture.open();
    gateway.hello(hello());
    expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'database_unavailable' });
    expect(fixture.hub.peer(fixture.connection.id)).toBeUndefined();
    fixture.events.onAttached = async () => {};
    await fixture.open().attach(hello());
  });

  it('keeps no slot of a connection that was deleted while the gateway attached', async () => {
    const get = jest.spyOn(ConnectionRepository.prototype, 'get').mockImplementationOnce(async () => {
      await fixture.service.delete('org-1', fixture.connection.id, undefined);
      return fixture.connection; // The mock returns the connection as it was before the deletion.
    });
    const gateway = fixture.open();
    gateway.hello(hello());
    expect(await gateway.ended).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    expect(Reflect.get(fixture.gateway, 'slots')).toEqual(new Map());
    get.mockRestore();
  });

  async function switchTo(enabled: boolean): Promise<void> {
    await fixture.service.update(
      'org-1',
      fixture.connection.id,
      { name: undefined, description: undefined, enabled, configuration: undefined, policy: undefined },
      undefined,
    );
  }
});

describe('a stream without a Hello', () => {
  it('is ended', async () => {
    const fixture = await openAttachFixture({}, 1);
    expect(await fixture.open().ended).toMatchObject({ code: status.DEADLINE_EXCEEDED, reason: 'hello_required' });
    await fixture.stop();
  });
});
