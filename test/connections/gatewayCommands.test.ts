import type { Downlink } from '../../src/connections';
import { openAttachRoom, type AttachRoom } from './attachRoom';
import { gate } from './fakeEvents';
import type { GatewayClient } from './gatewayClient';

describe('commands to a gateway', () => {
  let room: AttachRoom;
  let gateway: GatewayClient;
  beforeEach(async () => {
    room = await openAttachRoom({ maxInFlight: 2 });
    gateway = room.open();
    await gateway.attach({ connectionId: room.connection.id });
  });
  afterEach(async () => await room.stop());

  const peer = () => room.hub.peer(room.connection.id);
  const session = (): number => peer()?.session ?? 0;
  const send = async (executionId: string, overrides: Partial<Downlink> = {}) => await room.hub.send(room.downlink(executionId, overrides), session());

  it('carry everything, and the time that is left', async () => {
    const deadline = room.clock.now() + 1500;
    expect(await send('e1', { deadline, attempt: 3, fPort: 12, confirmed: true, topic: 'a/b', payload: { kind: 'json', value: [null, { x: 1.5 }] } })).toBe('sent');
    expect(await gateway.next('command')).toEqual({
      executionId: 'e1',
      attempt: 3,
      deadline: { seconds: Math.floor(deadline / 1000), nanos: (deadline % 1000) * 1_000_000 },
      expiresIn: { seconds: 1, nanos: 500_000_000 },
      clientDeviceId: 'device-1',
      payload: { $case: 'json', value: [null, { x: 1.5 }] },
      fPort: 12,
      confirmed: true,
      topic: 'a/b',
    });
    await send('e2', { payload: { kind: 'bytes', bytes: new Uint8Array([0, 255]) }, fPort: 0, confirmed: true, topic: 'c' });
    expect(await gateway.next('command')).toMatchObject({ payload: { $case: 'bytes', value: Buffer.from([0, 255]) }, fPort: 0, confirmed: true, topic: 'c' });
    gateway.received('e1');
    await room.events.until(() => peer()?.capacity === 1);
    await send('e3', { payload: { kind: 'bytes', bytes: new Uint8Array(65_536).fill(7) } });
    expect(await gateway.next('command')).toMatchObject({ payload: { $case: 'bytes', value: Buffer.alloc(65_536, 7) }, fPort: undefined, confirmed: false, topic: '' });
  });

  it('do not leave for another attachment, for nobody, or too late', async () => {
    expect(await send('e1', { connectionId: 'another' })).toBe('not_sent');
    expect(await room.hub.send(room.downlink('e1'), session() + 1)).toBe('not_sent');
    expect(await send('e1', { deadline: room.clock.now() })).toBe('not_sent');
    const old = session();
    const newer = room.open();
    await newer.attach({ connectionId: room.connection.id });
    expect(await room.hub.send(room.downlink('e1'), old)).toBe('not_sent');
    newer.cancel();
    await room.log.until('gateway.detached', 2);
    expect(peer()).toBeUndefined();
    expect(await room.hub.send(room.downlink('e1'), old + 1)).toBe('not_sent');
  });

  it('are at most so many sent and not received', async () => {
    expect(await Promise.all([send('e1'), send('e2'), send('e3')])).toEqual(['sent', 'sent', 'not_sent']);
    expect(peer()).toMatchObject({ capacity: 0 });
    const readies = room.events.readies.length;
    gateway.received('e1');
    await room.events.until(() => room.events.readies.length === readies + 1);
    expect(peer()).toMatchObject({ capacity: 1 });
    gateway.received('e1'); // twice makes no second room
    gateway.result('e2');
    await room.events.until(() => room.events.readies.length === readies + 2);
    expect(peer()).toMatchObject({ capacity: 2 });
    expect(await send('e3')).toBe('sent');
  });

  it('follow a changed limit at once', async () => {
    await Promise.all([send('e1'), send('e2')]);
    const update = { name: undefined, description: undefined, enabled: undefined, configuration: undefined, policy: { maxInFlight: 5 } };
    await room.service.update('org-1', room.connection.id, update, undefined);
    expect(peer()).toMatchObject({ capacity: 3 });
    expect(room.events.readies.at(-1)).toBe(room.connection.id);
  });

  it('begin anew with each attachment', async () => {
    await Promise.all([send('e1'), send('e2')]);
    const newer = room.open();
    await newer.attach({ connectionId: room.connection.id });
    expect(peer()).toMatchObject({ capacity: 2 });
  });

  it('are withdrawn, which makes room again', async () => {
    await Promise.all([send('e1'), send('e2')]);
    const readies = room.events.readies.length;
    room.hub.withdraw(room.connection.id, 'e1');
    expect(peer()).toMatchObject({ capacity: 1 });
    expect(room.events.readies).toHaveLength(readies + 1);
    room.hub.withdraw('another', 'e2');
    await gateway.next('command');
    await gateway.next('command');
    expect(await gateway.next('withdraw')).toEqual({ executionId: 'e1' });
  });

  it('are withdrawn after the welcome where they ended while the attachment was settled', async () => {
    const settled = gate<void>();
    room.events.onAttached = async () => await settled.promise;
    const newer = room.open();
    newer.hello({ connectionId: room.connection.id, bootId: 'boot-2' });
    await room.events.until(() => room.events.attachments.length === 2);
    room.hub.withdraw(room.connection.id, 'e1');
    settled.open();
    await newer.next('welcome');
    expect(await newer.next('withdraw')).toEqual({ executionId: 'e1' });
  });

  it('wait for a gateway that does not read, and those that wait can be taken back', async () => {
    await room.service.update('org-1', room.connection.id, { name: undefined, description: undefined, enabled: undefined, configuration: undefined, policy: { maxInFlight: 1000 } }, undefined);
    gateway.pause();
    const payload = { kind: 'json', value: 'x'.repeat(60_000) } as const;
    const sent = new Set<string>();
    const results = new Map<string, Promise<string>>();
    for (let n = 0; n < 100; n += 1) {
      const id = `e${n}`;
      results.set(id, send(id, { payload }).then((result) => (sent.add(id), result)));
    }
    await room.status(); // a whole call later
    expect(sent.size).toBeLessThan(100);
    room.hub.withdraw(room.connection.id, 'e99');
    expect(await results.get('e99')).toBe('not_sent');
    gateway.cancel();
    const all = await Promise.all(results.values());
    expect(new Set(all)).toEqual(new Set(['sent', 'not_sent']));
    expect(all[0]).toBe('sent');
    expect(all[98]).toBe('not_sent');
  });
});
