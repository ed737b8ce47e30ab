import { status } from '@grpc/grpc-js';
import { ConnectionState } from '../../src/gen/connection/connection_service';
import { KnownStatus } from '../../src/gen/gateway/v1/gateway_service';
import { ConnectionRepository } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { version } from '../../package.json';
import { openAttachRoom, type AttachRoom } from './attachRoom';
import { gate } from './fakeEvents';

describe('attaching a gateway', () => {
  let room: AttachRoom;
  beforeEach(async () => {
    room = await openAttachRoom();
  });
  afterEach(async () => await room.stop());

  const hello = (overrides: object = {}) => ({ connectionId: room.connection.id, ...overrides });

  it('welcomes it after what it holds is settled', async () => {
    const settled = gate<void>();
    room.events.onAttached = async () => await settled.promise;
    const gateway = room.open();
    const known = [
      { executionId: 'e1', status: KnownStatus.KNOWN_STATUS_RECEIVED, code: '', message: '', time: { seconds: 7, nanos: 0 } },
      { executionId: 'e2', status: KnownStatus.KNOWN_STATUS_FAILED, code: '', message: 'stuck', time: undefined },
      { executionId: 'e3', status: KnownStatus.KNOWN_STATUS_EXPIRED, code: 'late', message: '', time: undefined },
    ];
    gateway.hello(hello({ known }));
    await room.events.until(() => room.events.attachments.length === 1);
    const came = { receivedAt: room.clock.now(), clock: `${room.connection.id}/gateway-a` };
    expect(room.events.attachments).toEqual([
      {
        organizationId: 'org-1',
        connectionId: room.connection.id,
        peerId: 'gateway-a',
        bootId: 'boot-1',
        source: 'gateway:gateway-a',
        durable: true,
        known: [
          { executionId: 'e1', evidence: { kind: 'transport_ok', time: 7000, ...came } },
          { executionId: 'e2', evidence: { kind: 'negative', code: 'failed', message: 'stuck', time: undefined, ...came } },
          { executionId: 'e3', evidence: { kind: 'unreachable', code: 'late', message: '', time: undefined, ...came } },
        ],
      },
    ]);
    expect(room.hub.peer(room.connection.id)).toBeUndefined();
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISCONNECTED });
    settled.open();
    expect(await gateway.next('welcome')).toEqual({ serverTime: { seconds: Math.floor(room.clock.now() / 1000), nanos: 678_000_000 }, maxInFlight: 16, protocolVersion: 1, serverVersion: version });
    expect(room.hub.peer(room.connection.id)).toMatchObject({ peerId: 'gateway-a', bootId: 'boot-1', capacity: 16 });
    expect(room.events.readies).toEqual([room.connection.id]);
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_CONNECTED, lastError: '', warnings: [] });
  });

  it('ends a stream that begins with something else, or holds a second Hello or nothing known', async () => {
    const early = room.open();
    early.received('e1');
    expect(await early.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['hello'] });
    const second = room.open();
    await second.attach(hello());
    second.hello(hello());
    expect(await second.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['hello'] });
    const empty = room.open();
    await empty.attach(hello());
    empty.send(undefined);
    expect(await empty.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['message'] });
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISCONNECTED, lastError: expect.stringContaining('validation_failed') });
    const silent = room.open();
    silent.end();
    expect(await silent.ended).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['hello'] });
  });

  it('ends a stream whose Hello breaks the field rules, naming each field', async () => {
    const gateway = room.open();
    gateway.hello({ gatewayId: '', bootId: 'a b', store: 0 });
    expect(await gateway.ended).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: ['hello.connectionId', 'hello.gatewayId', 'hello.bootId', 'hello.store'] });
  });

  it.each([
    ['unknown connection', 'key', 'org-1', status.NOT_FOUND, 'connection_not_found'],
    ['connection of another organization', 'foreign', 'org-2', status.NOT_FOUND, 'connection_not_found'],
    ['connection that the key does not name', 'narrow', 'org-1', status.NOT_FOUND, 'connection_not_found'],
    ['missing scope', 'reader', 'org-1', status.PERMISSION_DENIED, 'scope_missing'],
  ])('refuses: %s', async (name, key, organizationId, code, reason) => {
    room.edge.keys.add('foreign', { organizationId: 'org-2' });
    room.edge.keys.add('narrow', { connections: new Set(['another']) });
    room.edge.keys.add('reader', { scopes: new Set(['connections:read']) });
    const gateway = room.open(key, organizationId);
    gateway.hello(name === 'unknown connection' ? hello({ connectionId: 'nobody' }) : hello());
    expect(await gateway.ended).toMatchObject({ code, reason });
    expect(room.events.attachments).toEqual([]);
  });

  it('accepts a key that names the connection', async () => {
    room.edge.keys.add('named', { connections: new Set([room.connection.id]) });
    await room.open('named').attach(hello());
  });

  it('refuses a connection of another kind, and a disabled one', async () => {
    await new ConnectionRepository(room.test.database.db).create('org-1', { ...room.connection, id: 'broker', name: 'broker', connectorId: 'mqtt' });
    const other = room.open();
    other.hello(hello({ connectionId: 'broker' }));
    expect(await other.ended).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'not_a_gateway' });
    await switchTo(false);
    const gateway = room.open();
    gateway.hello(hello());
    expect(await gateway.ended).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'connection_disabled' });
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISABLED });
    await switchTo(true);
    await room.open().attach(hello());
  });

  it('ends the stream when the connection is switched off, also while it is being settled', async () => {
    const gateway = room.open();
    await gateway.attach(hello());
    await switchTo(false);
    expect(await gateway.ended).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'connection_disabled' });
    expect(room.hub.peer(room.connection.id)).toBeUndefined();
    await switchTo(true);
    const settled = gate<void>();
    room.events.onAttached = async () => await settled.promise;
    const settling = room.open();
    settling.hello(hello());
    await room.events.until(() => room.events.attachments.length === 2);
    await switchTo(false);
    expect(await settling.ended).toMatchObject({ reason: 'connection_disabled' });
    settled.open();
  });

  it('ends the stream when the connection is deleted', async () => {
    const gateway = room.open();
    await gateway.attach(hello());
    await room.service.delete('org-1', room.connection.id, undefined);
    expect(await gateway.ended).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
  });

  it('ends the stream when the server stops', async () => {
    const gateway = room.open();
    await gateway.attach(hello());
    const stopped = room.edge.server.stop(1000, [room.edge.door]);
    expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'shutting_down' });
    await stopped;
  });

  it('ends with OK when the gateway ends, after the last of its messages is answered', async () => {
    const gateway = room.open();
    await gateway.attach(hello());
    gateway.uplink('u1');
    gateway.end();
    expect(await gateway.next('uplinkAck')).toMatchObject({ uplinkId: 'u1' });
    expect(await gateway.ended).toBeUndefined();
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISCONNECTED, lastError: '' });
  });

  it('tells why the gateway is away when it vanished', async () => {
    const gateway = room.open();
    await gateway.attach(hello());
    room.clock.advance(1000);
    gateway.cancel();
    await room.log.until('gateway.detached');
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DISCONNECTED, since: { nanos: 678_000_000 }, lastError: expect.stringContaining('cancelled') });
  });

  it('ends the stream and stays away when what it holds cannot be settled', async () => {
    room.events.onAttached = async () => await Promise.reject(new DomainError('unavailable', 'database_unavailable', 'the database is away; try again'));
    const gateway = room.open();
    gateway.hello(hello());
    expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'database_unavailable' });
    expect(room.hub.peer(room.connection.id)).toBeUndefined();
    room.events.onAttached = async () => {};
    await room.open().attach(hello());
  });

  it('keeps no seat of a connection that was deleted while the gateway attached', async () => {
    const get = jest.spyOn(ConnectionRepository.prototype, 'get').mockImplementationOnce(async () => {
      await room.service.delete('org-1', room.connection.id, undefined);
      return room.connection; // as it was when it was read
    });
    const gateway = room.open();
    gateway.hello(hello());
    expect(await gateway.ended).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    expect(Reflect.get(room.gateway, 'seats')).toEqual(new Map());
    get.mockRestore();
  });

  async function switchTo(enabled: boolean): Promise<void> {
    await room.service.update('org-1', room.connection.id, { name: undefined, description: undefined, enabled, configuration: undefined, policy: undefined }, undefined);
  }
});

describe('a stream without a Hello', () => {
  it('is ended', async () => {
    const room = await openAttachRoom({}, 1);
    expect(await room.open().ended).toMatchObject({ code: status.DEADLINE_EXCEEDED, reason: 'hello_missing' });
    await room.stop();
  });
});
