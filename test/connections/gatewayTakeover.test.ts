import { status } from '@grpc/grpc-js';
import { ConnectionState } from '../../src/gen/connection/connection_service';
import { openAttachRoom, type AttachRoom } from './attachRoom';
import { gate } from './fakeEvents';
import type { GatewayClient } from './gatewayClient';

const REPLACED = { code: status.ABORTED, reason: 'gateway_replaced' };
const MINUTE = 60_000;

describe('a newer gateway', () => {
  let room: AttachRoom;
  beforeEach(async () => {
    room = await openAttachRoom();
  });
  afterEach(async () => await room.stop());

  const attach = async (gatewayId: string, bootId = 'boot-1'): Promise<GatewayClient> => {
    const gateway = room.open();
    await gateway.attach({ connectionId: room.connection.id, gatewayId, bootId });
    return gateway;
  };
  const refused = async (gatewayId: string, bootId = 'boot-1') => {
    const gateway = room.open();
    gateway.hello({ connectionId: room.connection.id, gatewayId, bootId });
    return await gateway.ended;
  };
  const contested = async () => (await room.status()).warnings;

  it('takes over, and the older one is told to wait 30 s', async () => {
    const a = await attach('a');
    await attach('b');
    expect(await a.ended).toMatchObject({ ...REPLACED, retryMs: 30_000, metadata: { connection_id: room.connection.id } });
    expect(room.hub.peer(room.connection.id)).toMatchObject({ peerId: 'b' });
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_CONNECTED, warnings: [] });
  });

  it('is the same one after a cut or a restart: it takes over at once, as often as it must', async () => {
    for (const boot of ['boot-1', 'boot-1', 'boot-1', 'boot-2', 'boot-2', 'boot-3']) await attach('a', boot);
    expect(room.hub.peer(room.connection.id)).toMatchObject({ peerId: 'a', bootId: 'boot-3' });
    expect(await contested()).toEqual([]);
  });

  it('is not replaced by the one that it replaced before 30 s are over, and that shows as contested', async () => {
    await attach('a');
    const b = await attach('b');
    room.clock.advance(29_999);
    expect(await refused('a')).toMatchObject({ ...REPLACED, retryMs: 1 });
    expect(room.hub.peer(room.connection.id)).toMatchObject({ peerId: 'b' });
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_DEGRADED, warnings: ['contested'] });
    room.clock.advance(1);
    await attach('a');
    expect(await b.ended).toMatchObject(REPLACED);
    expect(await refused('b')).toMatchObject({ ...REPLACED, retryMs: 30_000 });
    expect(room.log.of('gateway.contested')).toHaveLength(1);
  });

  it('leaves the seat, and who was replaced comes back at once', async () => {
    await attach('a');
    const b = await attach('b');
    b.cancel();
    await room.log.until('gateway.detached', 2);
    await attach('a');
    expect(await contested()).toEqual([]);
  });

  it('with the id of another one is found out when the older start comes back', async () => {
    await attach('a', 'boot-of-one');
    await attach('a', 'boot-of-its-copy');
    expect(await refused('a', 'boot-of-one')).toMatchObject(REPLACED);
    expect(await contested()).toEqual(['contested']);
  });

  it('is contested no more after 5 quiet minutes', async () => {
    await attach('a');
    await attach('b');
    await refused('a');
    room.clock.advance(5 * MINUTE - 1);
    expect(await contested()).toEqual(['contested']);
    room.clock.advance(1);
    const since = room.clock.now();
    room.clock.advance(1000);
    expect(await room.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_CONNECTED, since: { seconds: Math.floor(since / 1000) }, warnings: [] });
    await attach('a');
    expect(await contested()).toEqual([]);
  });

  it('is settled only after what the older one brought is stored', async () => {
    const stored = gate<{ outcome: 'stored' }>();
    room.events.onUplink = async () => await stored.promise;
    const a = await attach('a');
    a.uplink('u1');
    await room.events.until(() => room.events.uplinks.length === 1);
    const b = room.open();
    b.hello({ connectionId: room.connection.id, gatewayId: 'b' });
    expect(await a.ended).toMatchObject(REPLACED);
    expect(room.events.attachments.map(({ peerId }) => peerId)).toEqual(['a']);
    stored.open({ outcome: 'stored' });
    await b.next('welcome');
    expect(room.events.attachments.map(({ peerId }) => peerId)).toEqual(['a', 'b']);
  });

  it('finds nothing left of the older one that went away: what that brought is stored, then what was on its way to it is settled, then comes the new one', async () => {
    const stored = gate<{ outcome: 'stored' }>();
    const settled = gate<void>();
    room.events.onUplink = async () => await stored.promise;
    room.events.onDetached = async () => await settled.promise;
    const a = await attach('a');
    a.uplink('u1');
    await room.events.until(() => room.events.uplinks.length === 1);
    a.cancel();
    await room.log.until('gateway.detached');
    const b = room.open();
    b.hello({ connectionId: room.connection.id, gatewayId: 'b' });
    await room.status(); // a whole call later
    expect(room.events.detachments).toEqual([]);
    stored.open({ outcome: 'stored' });
    await room.events.until(() => room.events.detachments.length === 1);
    await room.status();
    expect(room.events.attachments.map(({ peerId }) => peerId)).toEqual(['a']);
    settled.open();
    await b.next('welcome');
    expect(room.events.attachments.map(({ peerId }) => peerId)).toEqual(['a', 'b']);
    expect(room.events.detachments).toEqual([room.connection.id]);
  });

  it('settles for the older one that it replaced; where it goes away before, its own end does', async () => {
    const first = await attach('a');
    await attach('b');
    expect(await first.ended).toMatchObject(REPLACED);
    expect(room.events.detachments).toEqual([]);
    const settled = gate<void>();
    room.events.onAttached = async () => await settled.promise;
    const c = room.open();
    c.hello({ connectionId: room.connection.id, gatewayId: 'c' });
    await room.events.until(() => room.events.attachments.length === 3);
    c.cancel();
    await room.log.until('gateway.detached', 3);
    expect(room.events.detachments).toEqual([]);
    settled.open();
    await room.events.until(() => room.events.detachments.length === 1);
  });

  it('is welcome also when what was on its way to the older one could not be settled', async () => {
    room.events.onDetached = async () => await Promise.reject(new Error('the database is away'));
    const a = await attach('a');
    a.end();
    await a.ended;
    await attach('b');
    expect(room.log.of('gateway.detach_failed')).toMatchObject([{ gateway_id: 'a', connection_id: room.connection.id }]);
  });

  it('replaces one that is still being settled, and is settled after it', async () => {
    const settled = gate<void>();
    room.events.onAttached = async ({ peerId }) => (peerId === 'a' ? await settled.promise : undefined);
    const a = room.open();
    a.hello({ connectionId: room.connection.id, gatewayId: 'a' });
    await room.events.until(() => room.events.attachments.length === 1);
    const b = room.open();
    b.hello({ connectionId: room.connection.id, gatewayId: 'b' });
    expect(await a.ended).toMatchObject(REPLACED);
    const c = room.open();
    c.hello({ connectionId: room.connection.id, gatewayId: 'c' });
    expect(await b.ended).toMatchObject(REPLACED);
    expect(room.events.attachments).toHaveLength(1);
    settled.open();
    await c.next('welcome');
    expect(room.events.attachments.map(({ peerId }) => peerId)).toEqual(['a', 'c']);
  });
});
