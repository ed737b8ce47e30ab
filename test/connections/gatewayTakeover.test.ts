import { status } from '@grpc/grpc-js';
import { ConnectionState } from '../../src/gen/connection/connection_service';
import { openAttachFixture, type AttachFixture } from './attachFixture';
import { gate } from './fakeEvents';
import type { GatewayClient } from './gatewayClient';

const REPLACED = { code: status.ABORTED, reason: 'gateway_replaced' };
const MINUTE = 60_000;

describe('a newer gateway', () => {
  let fixture: AttachFixture;
  beforeEach(async () => {
    fixture = await openAttachFixture();
  });
  afterEach(async () => await fixture.stop());

  const attach = async (gatewayId: string, bootId = 'boot-1'): Promise<GatewayClient> => {
    const gateway = fixture.open();
    await gateway.attach({ connectionId: fixture.connection.id, gatewayId, bootId });
    return gateway;
  };
  const refused = async (gatewayId: string, bootId = 'boot-1') => {
    const gateway = fixture.open();
    gateway.hello({ connectionId: fixture.connection.id, gatewayId, bootId });
    return await gateway.ended;
  };
  const contested = async () => (await fixture.status()).warnings;

  it('takes over, and the older one is told to wait 30 s', async () => {
    const a = await attach('a');
    await attach('b');
    expect(await a.ended).toMatchObject({
      ...REPLACED,
      retryMs: 30_000,
      metadata: { connection_id: fixture.connection.id },
    });
    expect(fixture.hub.peer(fixture.connection.id)).toMatchObject({ peerId: 'b' });
    expect(await fixture.status()).toMatchObject({ state: ConnectionState.CONNECTION_STATE_CONNECTED, warnings: [] });
  });

  it('takes over immediately and repeatedly when it is the same gateway after a disconnect or a restart', async () => {
    for (const boot of ['boot-1', 'boot-1', 'boot-1', 'boot-2', 'boot-2', 'boot-3']) await attach('a', boot);
    expect(fixture.hub.peer(fixture.connection.id)).toMatchObject({ peerId: 'a', bootId: 'boot-3' });
    expect(await contested()).toEqual([]);
  });

  it('is not replaced within 30 s by the gateway that it replaced, which shows as contested', async () => {
    await attach('a');
    const b = await attach('b');
    fixture.clock.advance(29_999);
    expect(await refused('a')).toMatchObject({ ...REPLACED, retryMs: 1 });
    expect(fixture.hub.peer(fixture.connection.id)).toMatchObject({ peerId: 'b' });
    expect(await fixture.status()).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_DEGRADED,
      warnings: ['contested'],
    });
    fixture.clock.advance(1);
    await attach('a');
    expect(await b.ended).toMatchObject(REPLACED);
    expect(await refused('b')).toMatchObject({ ...REPLACED, retryMs: 30_000 });
    expect(fixture.log.of('gateway.duplicate_attach')).toHaveLength(1);
  });

  it('disconnects, and the replaced gateway may return immediately', async () => {
    await attach('a');
    const b = await attach('b');
    b.cancel();
    await fixture.log.until('gateway.detached', 2);
    await attach('a');
    expect(await contested()).toEqual([]);
  });

  it('with the id of another gateway is detected when the older boot returns', async () => {
    await attach('a', 'boot-of-one');
    await attach('a', 'boot-of-its-copy');
    expect(await refused('a', 'boot-of-one')).toMatchObject(REPLACED);
    expect(await contested()).toEqual(['contested']);
  });

  it('is no longer contested after 5 quiet minutes', async () => {
    await attach('a');
    await attach('b');
    await refused('a');
    fixture.clock.advance(5 * MINUTE - 1);
    expect(await contested()).toEqual(['contested']);
    fixture.clock.advance(1);
    const since = fixture.clock.now();
    fixture.clock.advance(1000);
    expect(await fixture.status()).toMatchObject({
      state: ConnectionState.CONNECTION_STATE_CONNECTED,
      since: { seconds: Math.floor(since / 1000) },
      warnings: [],
    });
    await attach('a');
    expect(await contested()).toEqual([]);
  });

  it('is settled only after the messages of the older one are stored', async () => {
    const stored = gate<{ outcome: 'stored' }>();
    fixture.events.onUplink = async () => await stored.promise;
    const a = await attach('a');
    a.uplink('u1');
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    const b = fixture.open();
    b.hello({ connectionId: fixture.connection.id, gatewayId: 'b' });
    expect(await a.ended).toMatchObject(REPLACED);
    expect(fixture.events.attachments.map(({ peerId }) => peerId)).toEqual(['a']);
    stored.open({ outcome: 'stored' });
    await b.next('welcome');
    expect(fixture.events.attachments.map(({ peerId }) => peerId)).toEqual(['a', 'b']);
  });

  it('finds nothing left of a disconnected older one: its messages are stored and its commands settled before the new one attaches', async () => {
    const stored = gate<{ outcome: 'stored' }>();
    const settled = gate<void>();
    fixture.events.onUplink = async () => await stored.promise;
    fixture.events.onDetached = async () => await settled.promise;
    const a = await attach('a');
    a.uplink('u1');
    await fixture.events.until(() => fixture.events.uplinks.length === 1);
    a.cancel();
    await fixture.log.until('gateway.detached');
    const b = fixture.open();
    b.hello({ connectionId: fixture.connection.id, gatewayId: 'b' });
    await fixture.status(); // A complete call has passed.
    expect(fixture.events.detachments).toEqual([]);
    stored.open({ outcome: 'stored' });
    await fixture.events.until(() => fixture.events.detachments.length === 1);
    await fixture.status();
    expect(fixture.events.attachments.map(({ peerId }) => peerId)).toEqual(['a']);
    settled.open();
    await b.next('welcome');
    expect(fixture.events.attachments.map(({ peerId }) => peerId)).toEqual(['a', 'b']);
    expect(fixture.events.detachments).toEqual([fixture.connection.id]);
  });

  it('settles the commands of the one that it replaced; if it disconnects before that, its own end settles them', async () => {
    const first = await attach('a');
    await attach('b');
    expect(await first.ended).toMatchObject(REPLACED);
    expect(fixture.events.detachments).toEqual([]);
    const settled = gate<void>();
    fixture.events.onAttached = async () => await settled.promise;
    const c = fixture.open();
    c.hello({ connectionId: fixture.connection.id, gatewayId: 'c' });
    await fixture.events.until(() => fixture.events.attachments.length === 3);
    c.cancel();
    await fixture.log.until('gateway.detached', 3);
    expect(fixture.events.detachments).toEqual([]);
    settled.open();
    await fixture.events.until(() => fixture.events.detachments.length === 1);
  });

  it('is welcomed even when the commands of the older one could not be settled', async () => {
    fixture.events.onDetached = async () => await Promise.reject(new Error('the database is away'));
    const a = await attach('a');
    a.end();
    await a.ended;
    await attach('b');
    expect(fixture.log.of('gateway.detach_failed')).toMatchObject([
      { gateway_id: 'a', connection_id: fixture.connection.id },
    ]);
  });

  it('replaces a gateway that is still being settled, and is settled after it', async () => {
    const settled = gate<void>();
    fixture.events.onAttached = async ({ peerId }) => (peerId === 'a' ? await settled.promise : undefined);
    const a = fixture.open();
    a.hello({ connectionId: fixture.connection.id, gatewayId: 'a' });
    await fixture.events.until(() => fixture.events.attachments.length === 1);
    const b = fixture.open();
    b.hello({ connectionId: fixture.connection.id, gatewayId: 'b' });
    expect(await a.ended).toMatchObject(REPLACED);
    const c = fixture.open();
    c.hello({ connectionId: fixture.connection.id, gatewayId: 'c' });
    expect(await b.ended).toMatchObject(REPLACED);
    expect(fixture.events.attachments).toHaveLength(1);
    settled.open();
    await c.next('welcome');
    expect(fixture.events.attachments.map(({ peerId }) => peerId)).toEqual(['a', 'c']);
  });
});
