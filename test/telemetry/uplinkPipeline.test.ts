import { status } from '@grpc/grpc-js';
import { ConnectionRepository, type UplinkMessage } from '../../src/connections';
import type { DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { SeriesIdCache, UplinkPipeline } from '../../src/telemetry';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

const DAY = 24 * 3600 * 1000;

describe.each(engines())('uplinks on $name', (engine) => {
  let fixture: DeviceFixture;
  let next = 0;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
  });
  beforeEach(() => fixture.clock.advance(1000));
  afterAll(async () => await fixture.stop());

  /** Creates a device that is bound to its own physical device. */
  async function createBoundDevice(): Promise<DigitalDevice> {
    return await fixture.api.create({
      name: 'Sender',
      physicalDevice: { clientDeviceId: `sender-${(next += 1)}`, connectionId: fixture.connections[0] },
    });
  }

  /** Creates a valid uplink of a device, received now. Pass only the fields that the test is about. */
  function uplink(device: DigitalDevice, overrides: Partial<UplinkMessage> = {}): UplinkMessage {
    return {
      organizationId: 'org-1',
      connectionId: fixture.connections[0],
      identity: { kind: 'id', uplinkId: `u-${(next += 1)}` },
      clientDeviceId: device.physicalDevice?.clientDeviceId ?? '',
      receivedAt: fixture.clock.now(),
      time: undefined,
      clock: 'gw-1',
      payload: { kind: 'json', value: { data: { temperature: 21.5 } } },
      fPort: undefined,
      ...overrides,
    };
  }

  async function keys(
    device: DigitalDevice,
    overrides: Record<string, string> = {},
  ): Promise<[string, unknown, number][]> {
    const request = {
      id: device.id,
      connectionId: fixture.connections[0],
      clientDeviceId: device.physicalDevice?.clientDeviceId ?? '',
      ...overrides,
    };
    const { connectorKeys } = await fixture.api.connectorKeys(request);
    return connectorKeys.map(({ name, timestamp, value }) => [name, (value as { value: unknown }).value, timestamp]);
  }
  const lastSeen = async (device: DigitalDevice): Promise<number | undefined> => {
    const { lastSeen: seen } = await fixture.api.get({ id: device.id });
    return seen && fromTimestamp(seen);
  };

  it('stores the paths of an uplink and the last seen time, which is not a change of the device', async () => {
    const device = await createBoundDevice();
    expect(await keys(device)).toEqual([]);
    fixture.clock.advance(50);
    const now = fixture.clock.now();
    const value = {
      data: { temperature: 21.5, relays: [true, false], note: null, 'a b': { deep: 'x' } },
      battery: 88,
      empty: {},
    };
    expect(await fixture.pipeline.handle(uplink(device, { payload: json(value) }))).toEqual({ outcome: 'stored' });
    expect(await keys(device)).toEqual([
      ['battery', 88, now],
      ['data.note', null, now],
      ['data.relays[0]', true, now],
      ['data.relays[1]', false, now],
      ['data.temperature', 21.5, now],
      ['data["a b"].deep', 'x', now],
      ['empty', {}, now],
    ]);
    expect(await fixture.api.get({ id: device.id })).toEqual({ ...device, lastSeen: expect.anything() as unknown });
    expect(await lastSeen(device)).toBe(now);
    const [listed] = (await fixture.api.list({ limit: 1 })).devices;
    expect(fromTimestamp(listed!.lastSeen!)).toBe(now);
  });

  it('stores bytes as hex digits, with the port if there is one', async () => {
    const device = await createBoundDevice();
    const bytes = Uint8Array.from([0, 1, 0xab, 0xff]);
    await fixture.pipeline.handle(uplink(device, { payload: { kind: 'bytes', bytes }, fPort: 7 }));
    expect((await keys(device)).map(([name, value]) => [name, value])).toEqual([
      ['bytes', '0001abff'],
      ['fPort', 7],
    ]);
    const silent = await createBoundDevice();
    await fixture.pipeline.handle(uplink(silent, { payload: { kind: 'bytes', bytes: new Uint8Array() } }));
    expect((await keys(silent)).map(([name, value]) => [name, value])).toEqual([['bytes', '']]);
  });

  it('stores a retained uplink once, if it was sampled after all others, and the device counts as seen then', async () => {
    const device = await createBoundDevice();
    const sampledAt = fixture.clock.now();
    await fixture.pipeline.handle(uplink(device, { time: sampledAt }));
    fixture.clock.advance(60_000);
    const retained = (time: number): UplinkMessage =>
      uplink(device, {
        time,
        identity: { kind: 'none' },
        isRetained: true,
        isBuffered: true,
        payload: json({ data: { temperature: 30 } }),
      });
    expect(await fixture.pipeline.handle(retained(sampledAt))).toEqual({ outcome: 'duplicate' });
    expect(await fixture.pipeline.handle(retained(sampledAt - 1))).toEqual({ outcome: 'duplicate' });
    expect(await lastSeen(device)).toBe(sampledAt);
    expect(await fixture.pipeline.handle(retained(sampledAt + 20_000))).toEqual({ outcome: 'stored' });
    expect(await keys(device)).toEqual([['data.temperature', 30, sampledAt + 20_000]]);
    expect(await lastSeen(device)).toBe(sampledAt + 20_000);
    fixture.clock.advance(60_000);
    expect(await fixture.pipeline.handle(retained(sampledAt + 20_000))).toEqual({ outcome: 'duplicate' });
  });

  it('stores retained uplinks of one device on several topics in any order, each once', async () => {
    const device = await createBoundDevice();
    const now = fixture.clock.now();
    const retained = async (time: number, value: Record<string, unknown>): Promise<string> => {
      const options = { time, identity: { kind: 'none' }, isRetained: true, isBuffered: true } as const;
      return (await fixture.pipeline.handle(uplink(device, { ...options, payload: json(value) }))).outcome;
    };
    const topics = async (): Promise<string[]> => [
      await retained(now, { ts: now, humidity: 40 }),
      await retained(now - 60_000, { ts: now - 60_000, temperature: 21 }),
      await retained(now, { ts: now, pressure: 1000 }),
    ];
    expect(await topics()).toEqual(['stored', 'stored', 'stored']);
    expect(await topics()).toEqual(['duplicate', 'duplicate', 'duplicate']);
    expect(await keys(device)).toEqual([
      ['humidity', 40, now],
      ['pressure', 1000, now],
      ['temperature', 21, now - 60_000],
      ['ts', now, now],
    ]);
  });

  it('does not store a retained uplink again that came live from a device whose clock is ahead', async () => {
    const device = await createBoundDevice();
    const time = fixture.clock.now() + 5000;
    await fixture.pipeline.handle(uplink(device, { time }));
    fixture.clock.advance(60_000);
    const retained = uplink(device, { time, isRetained: true, isBuffered: true });
    expect(await fixture.pipeline.handle(retained)).toEqual({ outcome: 'duplicate' });
  });

  it('does not remember the id of a retained uplink that it skips, because its queued copy may still come', async () => {
    const device = await createBoundDevice();
    const time = fixture.clock.now();
    await fixture.pipeline.handle(uplink(device, { time, payload: json({ other: 2 }) }));
    const late = uplink(device, { time: time - 10_000, payload: json({ other: 1 }) });
    const retained = { ...late, isRetained: true, isBuffered: true };
    expect(await fixture.pipeline.handle(retained)).toEqual({ outcome: 'duplicate' });
    expect(await fixture.pipeline.handle(late)).toEqual({ outcome: 'stored' });
  });

  it('lists an unknown device with a retained uplink as seen when it was sampled', async () => {
    const time = fixture.clock.now() - 3_600_000;
    const device = { physicalDevice: { clientDeviceId: `away-${(next += 1)}` } } as DigitalDevice;
    const retained = uplink(device, { time, isRetained: true, isBuffered: true });
    expect(await fixture.pipeline.handle(retained)).toEqual({ outcome: 'stored' });
    const [row] = await fixture.test.database.db
      .knex('discovered_devices')
      .where('client_device_id', device.physicalDevice?.clientDeviceId ?? '');
    expect(row).toMatchObject({ first_seen: time, last_seen: time });
  });

  it('accepts an uplink once: a repeated one changes nothing for 7 days', async () => {
    const device = await createBoundDevice();
    const first = uplink(device);
    const sent = fixture.clock.now();
    expect(await fixture.pipeline.handle(first)).toEqual({ outcome: 'stored' });
    fixture.clock.advance(1000);
    const again = { ...first, receivedAt: fixture.clock.now(), payload: json({ data: { temperature: 99 } }) };
    expect(await fixture.pipeline.handle(again)).toEqual({ outcome: 'duplicate' });
    await fixture.pipeline.sweep(sent + 7 * DAY);
    expect(await fixture.pipeline.handle(again)).toEqual({ outcome: 'duplicate' });
    expect(await keys(device)).toEqual([['data.temperature', 21.5, sent]]);
    expect(await lastSeen(device)).toBe(sent);
    await fixture.pipeline.sweep(sent + 7 * DAY + 1);
    expect(await fixture.pipeline.handle(again)).toEqual({ outcome: 'stored' });
  });

  it('stores one of two parallel copies, and both of two uplinks of one device', async () => {
    const device = await createBoundDevice();
    const copy = uplink(device);
    const copies = await Promise.all([1, 2, 3, 4].map(async () => await fixture.pipeline.handle(copy)));
    expect(copies.map(({ outcome }) => outcome).toSorted()).toEqual(['duplicate', 'duplicate', 'duplicate', 'stored']);
    const forth = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`k${at}`, at]));
    const back = Object.fromEntries(Object.entries(forth).toReversed());
    const many = await Promise.all(
      Array.from(
        { length: 20 },
        async (_, at) => await fixture.pipeline.handle(uplink(device, { payload: json(at % 2 ? forth : back) })),
      ),
    );
    expect(new Set(many.map(({ outcome }) => outcome))).toEqual(new Set(['stored']));
  });

  it('remembers ids per connection', async () => {
    const device = await createBoundDevice();
    const message = uplink(device);
    const other = await fixture.addConnection();
    expect(await fixture.pipeline.handle(message)).toEqual({ outcome: 'stored' });
    expect(await fixture.pipeline.handle({ ...message, connectionId: other })).toEqual({ outcome: 'stored' });
  });

  it('sweeps many ids in batches', async () => {
    const rows = Array.from({ length: 2300 }, (_, at) => ({
      connection_id: fixture.connections[1],
      uplink_id: `old-${at}`,
      seen_at: at < 2200 ? 1 : 2,
    }));
    for (let at = 0; at < rows.length; at += 100)
      await fixture.test.database.db.knex('uplinks_seen').insert(rows.slice(at, at + 100));
    await fixture.pipeline.sweep(7 * DAY + 2);
    const left = await fixture.test.database.db.knex('uplinks_seen').where('connection_id', fixture.connections[1]);
    expect(left).toHaveLength(100);
  });

  it('deletes the keys of a deleted connection gradually, not together with it', async () => {
    const { db } = fixture.test.database;
    const [gone, stays] = [await fixture.addConnection(), await fixture.addConnection()];
    const rows = [...Array.from({ length: 2100 }, () => gone), stays].map((id, at) => ({
      connection_id: id,
      client_device_id: `${at % 7}`,
      name: `k${at}`,
      organization_id: 'org-1',
      value: '1',
      sampled_at: 1,
      seen_at: 1,
    }));
    for (let at = 0; at < rows.length; at += 100) await db.knex('connector_keys').insert(rows.slice(at, at + 100));
    await db.knex('uplinks_seen').insert({ connection_id: gone, uplink_id: 'u', seen_at: 1 });
    const kept = async (id: string): Promise<number> =>
      (await db.knex('connector_keys').where('connection_id', id)).length;
    await new ConnectionRepository(db).delete('org-1', gone);
    expect(await kept(gone)).toBe(2100);
    await fixture.pipeline.sweep(7 * DAY + 2);
    expect([await kept(gone), await kept(stays)]).toEqual([0, 1]);
    expect(await db.knex('uplinks_seen').where('connection_id', gone)).toEqual([]);
  });

  it('keeps keys of an unbound physical device, so that a binding can be previewed', async () => {
    const unbound = await fixture.api.create({ name: 'Not bound' });
    const clientDeviceId = `stray-${(next += 1)}`;
    expect(await fixture.pipeline.handle(uplink(unbound, { clientDeviceId }))).toEqual({ outcome: 'stored' });
    expect(await keys(unbound, { clientDeviceId: ` ${clientDeviceId} ` })).toEqual([
      ['data.temperature', 21.5, fixture.clock.now()],
    ]);
    expect(await lastSeen(unbound)).toBeUndefined();
    expect(await keys(unbound, { clientDeviceId: 'never-seen' })).toEqual([]);
  });

  it('keeps keys of the most recently seen unbound devices up to a limit, and of all bound devices', async () => {
    const pipeline = new UplinkPipeline({
      database: fixture.test.database,
      log: fixture.log,
      positions: fixture.positions,
      series: new SeriesIdCache(),
      evaluateExecutions: async () => {},
      unboundLimits: { keys: 2, listed: 100 },
    });
    const device = await createBoundDevice();
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((letter) => `invented-${letter}-${(next += 1)}`) as [
      string,
      string,
      string,
      string,
    ];
    const sendUplink = async (clientDeviceId: string): Promise<void> =>
      void (await pipeline.handle(uplink(device, { clientDeviceId })));
    const kept = async (): Promise<boolean[]> =>
      await Promise.all(
        [a, b, c, d].map(async (clientDeviceId) => (await keys(device, { clientDeviceId })).length > 0),
      );
    await pipeline.handle(uplink(device));
    for (const id of [a, b, a, c]) await sendUplink(id);
    expect(await kept()).toEqual([true, false, true, false]);
    expect(fixture.log.of('telemetry.unassigned_dropped').at(-1)).toMatchObject({
      client_device_id: b,
      connection_id: fixture.connections[0],
    });
    await fixture.api.create({
      name: 'Known by now',
      physicalDevice: { clientDeviceId: a, connectionId: fixture.connections[0] },
    });
    await sendUplink(d);
    expect(await kept()).toEqual([true, false, true, true]);
    expect(await keys(device)).toHaveLength(1);
  });

  it('shows keys only within the organization and names each invalid field', async () => {
    const device = await createBoundDevice();
    await fixture.pipeline.handle(uplink(device));
    const { id, physicalDevice } = device;
    const clientDeviceId = physicalDevice!.clientDeviceId;
    expect(
      await fixture.api.connectorKeys.fails({ id, connectionId: fixture.connections[1], clientDeviceId }),
    ).toMatchObject({ code: status.NOT_FOUND, reason: 'connection_not_found' });
    const foreignDevice = await fixture.api.create({ name: 'Theirs' }, 'org-2');
    expect(
      await fixture.api.connectorKeys.fails(
        { id: foreignDevice.id, connectionId: fixture.connections[0], clientDeviceId },
        'org-2',
      ),
    ).toMatchObject({ reason: 'connection_not_found' });
    expect(
      await fixture.api.connectorKeys(
        { id: foreignDevice.id, connectionId: fixture.connections[1], clientDeviceId },
        'org-2',
      ),
    ).toEqual({ connectorKeys: [] });
    expect(
      (await fixture.api.connectorKeys.fails({ id, connectionId: '', clientDeviceId: '' })).fields.toSorted(),
    ).toEqual(['clientDeviceId', 'connectionId']);
    expect(
      (await fixture.api.connectorKeys.fails({ id, connectionId: fixture.connections[0], clientDeviceId: 'a\u0007' }))
        .fields,
    ).toEqual(['clientDeviceId']);
  });

  it('stores a value only if it is not older than the stored one, and never moves lastSeen back', async () => {
    const device = await createBoundDevice();
    const now = fixture.clock.now();
    const at = async (time: number, receivedAt: number, value: number): Promise<void> =>
      void (await fixture.pipeline.handle(uplink(device, { time, receivedAt, payload: json({ v: value }) })));
    await at(now - 500, now, 1);
    expect(await keys(device)).toEqual([['v', 1, now - 500]]);
    await at(now - 600, now + 10, 2);
    expect(await keys(device)).toEqual([['v', 1, now - 500]]);
    await at(now - 500, now + 5, 3);
    expect(await keys(device)).toEqual([['v', 3, now - 500]]);
    expect(await lastSeen(device)).toBe(now + 10);
  });

  it('uses the time of receipt when the device has no time or a future one', async () => {
    const device = await createBoundDevice();
    const now = fixture.clock.now();
    await fixture.pipeline.handle(uplink(device, { time: now + DAY, payload: json({ v: 1 }) }));
    expect(await keys(device)).toEqual([['v', 1, now]]);
    await fixture.pipeline.handle(uplink(device, { time: Number.NaN, receivedAt: now + 1, payload: json({ v: 2 }) }));
    expect(await keys(device)).toEqual([['v', 2, now + 1]]);
  });

  it('keeps the 500 most recently seen paths', async () => {
    const device = await createBoundDevice();
    await fixture.pipeline.handle(uplink(device, { payload: json(numbered(0, 300)) }));
    fixture.clock.advance(1);
    await fixture.pipeline.handle(uplink(device, { payload: json(numbered(300, 200)) }));
    expect(await keys(device)).toHaveLength(500);
    fixture.clock.advance(1);
    await fixture.pipeline.handle(uplink(device, { payload: json({ ...numbered(0, 100), ...numbered(900, 150) }) }));
    const names = new Set((await keys(device)).map(([name]) => name));
    expect(names.size).toBe(500);
    for (const name of ['k0', 'k99', 'k300', 'k499', 'k900', 'k1049']) expect(names).toContain(name);
    fixture.clock.advance(1);
    await fixture.pipeline.handle(uplink(device, { payload: json(numbered(2000, 700)) }));
    expect((await keys(device)).map(([name]) => name).toSorted()).toEqual(Object.keys(numbered(2000, 500)).toSorted());
    expect(fixture.log.of('telemetry.paths_dropped').at(-1)).toMatchObject({
      kept_paths: 500,
      client_device_id: device.physicalDevice!.clientDeviceId,
    });
  });

  it('keeps the beginning of a long text', async () => {
    const device = await createBoundDevice();
    await fixture.pipeline.handle(
      uplink(device, { payload: json({ long: '\u{1F6B0}'.repeat(20_000), fits: 'x'.repeat(1024) }) }),
    );
    expect(await keys(device)).toEqual([
      ['fits', 'x'.repeat(1024), fixture.clock.now()],
      ['long', `${'\u{1F6B0}'.repeat(511)}…`, fixture.clock.now()],
    ]);
  });

  it.each<[string, Partial<UplinkMessage>]>([
    ['uplink_id_invalid', { identity: { kind: 'id', uplinkId: '' } }],
    ['uplink_id_invalid', { identity: { kind: 'id', uplinkId: 'x'.repeat(65) } }],
    ['uplink_id_invalid', { identity: { kind: 'id', uplinkId: 'a\u0000' } }],
    ['client_device_id_invalid', { clientDeviceId: '' }],
    ['client_device_id_invalid', { clientDeviceId: 'x'.repeat(256) }],
    ['client_device_id_invalid', { clientDeviceId: '\uD800' }],
    ['payload_not_json', { payload: json({ a: [Number.NaN] }) }],
    [
      'payload_too_deep',
      { payload: json(Array.from({ length: 40 }).reduce<Record<string, unknown>>((inner) => ({ inner }), {})) },
    ],
  ])('permanently rejects an invalid uplink and logs it: %s', async (reason, invalid) => {
    const device = await createBoundDevice();
    const message = uplink(device, invalid);
    expect(await fixture.pipeline.handle(message)).toEqual({ outcome: 'rejected', reason });
    expect(fixture.log.of('telemetry.uplink_rejected').at(-1)).toMatchObject({
      reason,
      outcome: 'rejected',
      connection_id: fixture.connections[0],
    });
    expect(await keys(device)).toEqual([]);
    expect(await lastSeen(device)).toBeUndefined();
  });

  it('treats hostile names and texts as data', async () => {
    const device = await createBoundDevice();
    const value = JSON.parse(
      String.raw`{"__proto__": {"x": 1}, "a\u0000b": "\u0000", "'; drop table connector_keys; --": "?", "half": "\ud800"}`,
    ) as Record<string, unknown>;
    expect(await fixture.pipeline.handle(uplink(device, { payload: json(value) }))).toEqual({ outcome: 'stored' });
    const rows = await fixture.test.database.db
      .knex('connector_keys')
      .where('client_device_id', device.physicalDevice!.clientDeviceId)
      .select('name', 'value');
    expect(
      new Map(rows.map((row: { name: string; value: string }) => [row.name, JSON.parse(row.value) as unknown])),
    ).toEqual(
      new Map<string, unknown>([
        ['__proto__.x', 1],
        [String.raw`["a\u0000b"]`, '\u0000'],
        [`["'; drop table connector_keys; --"]`, '?'],
        ['half', '\uD800'],
      ]),
    );
  });

  it('stores an uplink completely or not at all', async () => {
    const device = await createBoundDevice();
    const message = uplink(device);
    const { knex } = fixture.test.database.db;
    await knex.schema.renameTable('connector_keys', 'away');
    await expect(fixture.pipeline.handle(message)).rejects.toThrow('connector_keys');
    await knex.schema.renameTable('away', 'connector_keys');
    expect(await lastSeen(device)).toBeUndefined();
    expect(await fixture.pipeline.handle(message)).toEqual({ outcome: 'stored' });
    expect(await keys(device)).toHaveLength(1);
  });

  it('rejects uplinks of a deleted connection or another organization', async () => {
    const device = await createBoundDevice();
    for (const connectionId of ['no-such-connection', fixture.connections[1]]) {
      await expect(fixture.pipeline.handle(uplink(device, { connectionId }))).rejects.toMatchObject({
        reason: 'connection_not_found',
      });
    }
    expect(await keys(device)).toEqual([]);
  });
});

function json(value: Record<string, unknown>): UplinkMessage['payload'] {
  return { kind: 'json', value };
}

/** Returns values under `count` consecutive names, starting at `from`. */
function numbered(from: number, count: number): Record<string, unknown> {
  return Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${from + at}`, at]));
}
