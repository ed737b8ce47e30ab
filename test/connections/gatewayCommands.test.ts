import type { Downlink } from '../../src/connections';
import { openAttachFixture, type AttachFixture } from './attachFixture';
import { gate } from './fakeEvents';
import type { GatewayClient } from './gatewayClient';

describe('commands to a gateway', () => {
  let fixture: AttachFixture;
  let gateway: GatewayClient;
  beforeEach(async () => {
    fixture = await openAttachFixture({ maxInFlight: 2 });
    gateway = fixture.open();
    await gateway.attach({ connectionId: fixture.connection.id });
  });
  afterEach(async () => await fixture.stop());

  const peer = () => fixture.hub.peer(fixture.connection.id);
  const session = (): number => peer()?.session ?? 0;
  const send = async (executionId: string, overrides: Partial<Downlink> = {}) =>
    await fixture.hub.send(fixture.downlink(executionId, overrides), session());

  it('include all fields and the remaining time', async () => {
    const deadline = fixture.clock.now() + 1500;
    expect(
      await send('e1', {
        deadline,
        attempt: 3,
        fPort: 12,
        confirmed: true,
        topic: 'a/b',
        payload: { kind: 'json', value: [null, { x: 1.5 }] },
      }),
    ).toBe('sent');
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
    await send('e2', {
      payload: { kind: 'bytes', bytes: new Uint8Array([0, 255]) },
      fPort: 0,
      confirmed: true,
      topic: 'c',
    });
    expect(await gateway.next('command')).toMatchObject({
      payload: { $case: 'bytes', value: Buffer.from([0, 255]) },
      fPort: 0,
      confirmed: true,
      topic: 'c',
    });
    gateway.received('e1');
    await fixture.events.until(() => peer()?.capacity === 1);
    await send('e3', { payload: { kind: 'bytes', bytes: new Uint8Array(65_536).fill(7) } });
    expect(await gateway.next('command')).toMatchObject({
      payload: { $case: 'bytes', value: Buffer.alloc(65_536, 7) },
      fPort: undefined,
      confirmed: false,
      topic: '',
    });
  });

  it('are not sent to another attachment, without a gateway, or too late', async () => {
    expect(await send('e1', { connectionId: 'another' })).toBe('not_sent');
    expect(await fixture.hub.send(fixture.downlink('e1'), session() + 1)).toBe('not_sent');
    expect(await send('e1', { deadline: fixture.clock.now() })).toBe('not_sent');
    const old = session();
    const newer = fixture.open();
    await newer.attach({ connectionId: fixture.connection.id });
    expect(await fixture.hub.send(fixture.downlink('e1'), old)).toBe('not_sent');
    newer.cancel();
    await fixture.log.until('gateway.detached', 2);
    expect(peer()).toBeUndefined();
    expect(await fixture.hub.send(fixture.downlink('e1'), old + 1)).toBe('not_sent');
  });

  it('are limited in the number that is sent but not yet received', async () => {
    expect(await Promise.all([send('e1'), send('e2'), send('e3')])).toEqual(['sent', 'sent', 'not_sent']);
    expect(peer()).toMatchObject({ capacity: 0 });
    const readies = fixture.events.readies.length;
    gateway.received('e1');
    await fixture.events.until(() => fixture.events.readies.length === readies + 1);
    expect(peer()).toMatchObject({ capacity: 1 });
    gateway.received('e1'); // A second receipt frees no second slot.
    gateway.result('e2');
    await fixture.events.until(() => fixture.events.readies.length === readies + 2);
    expect(peer()).toMatchObject({ capacity: 2 });
    expect(await send('e3')).toBe('sent');
  });

  it('follow a changed limit immediately', async () => {
    await Promise.all([send('e1'), send('e2')]);
    const update = {
      name: undefined,
      description: undefined,
      enabled: undefined,
      configuration: undefined,
      policy: { maxInFlight: 5 },
    };
    await fixture.service.update('org-1', fixture.connection.id, update, undefined);
    expect(peer()).toMatchObject({ capacity: 3 });
    expect(fixture.events.readies.at(-1)).toBe(fixture.connection.id);
  });

  it('start over with each attachment', async () => {
    await Promise.all([send('e1'), send('e2')]);
    const newer = fixture.open();
    await newer.attach({ connectionId: fixture.connection.id });
    expect(peer()).toMatchObject({ capacity: 2 });
  });

  it('can be cancelled, which frees their slots', async () => {
    await Promise.all([send('e1'), send('e2')]);
    const readies = fixture.events.readies.length;
    fixture.hub.cancelAtGateway(fixture.connection.id, 'e1');
    expect(peer()).toMatchObject({ capacity: 1 });
    expect(fixture.events.readies).toHaveLength(readies + 1);
    fixture.hub.cancelAtGateway('another', 'e2');
    await gateway.next('command');
    await gateway.next('command');
    expect(await gateway.next('cancelCommand')).toEqual({ executionId: 'e1' });
  });

  it('are cancelled after the welcome when they ended during settlement', async () => {
    const settled = gate<void>();
    fixture.events.onAttached = async () => await settled.promise;
    const newer = fixture.open();
    newer.hello({ connectionId: fixture.connection.id, bootId: 'boot-2' });
    await fixture.events.until(() => fixture.events.attachments.length === 2);
    fixture.hub.cancelAtGateway(fixture.connection.id, 'e1');
    settled.open();
    await newer.next('welcome');
    expect(await newer.next('cancelCommand')).toEqual({ executionId: 'e1' });
  });

  it('wait for a gateway that does not read, and waiting ones can be cancelled', async () => {
    await fixture.service.update(
      'org-1',
      fixture.connection.id,
      {
        name: undefined,
        description: undefined,
        enabled: undefined,
        configuration: undefined,
        policy: { maxInFlight: 1000 },
      },
      undefined,
    );
    gateway.pause();
    const payload = { kind: 'json', value: 'x'.repeat(60_000) } as const;
    const sent = new Set<string>();
    const results = new Map<string, Promise<string>>();
    for (let n = 0; n < 100; n += 1) {
      const id = `e${n}`;
      results.set(
        id,
        send(id, { payload }).then((result) => (sent.add(id), result)),
      );
    }
    await fixture.status(); // A complete call has passed.
    expect(sent.size).toBeLessThan(100);
    fixture.hub.cancelAtGateway(fixture.connection.id, 'e99');
    expect(await results.get('e99')).toBe('not_sent');
    gateway.cancel();
    const all = await Promise.all(results.values());
    expect(new Set(all)).toEqual(new Set(['sent', 'not_sent']));
    expect(all[0]).toBe('sent');
    expect(all[98]).toBe('not_sent');
  });
});
