import { status } from '@grpc/grpc-js';
import { type Gateway, GatewayError, type GatewayUplink, memoryStore } from '../../../src/client/gateway/index';
import { UplinkOutcome } from '../../../src/gen/gateway/v1/gateway_service';
import type { FakeStream } from '../../support/fakePlantroom';
import { GatewayFixture, ShakyStore } from './gatewayFixture';

const reading = (value: number, uplinkId?: string): GatewayUplink => ({
  clientDeviceId: 'room-1',
  payload: { kind: 'json', value: { value } },
  ...(uplinkId !== undefined && { uplinkId }),
});

describe('gateway uplinks', () => {
  let fixture: GatewayFixture;

  beforeEach(async () => {
    fixture = new GatewayFixture();
    await fixture.open();
  });
  afterEach(async () => await fixture.close());

  it('are stored, sent with their time, and forgotten when the server has stored or permanently rejected them', async () => {
    const store = memoryStore();
    const gateway = fixture.start({ store });
    const kept = await gateway.send({
      clientDeviceId: 'room-1',
      payload: { kind: 'json', value: { temperature: 21.5, tags: ['a', null, true] } },
      time: new Date(5000),
    });
    await gateway.send({
      clientDeviceId: 'room-2',
      payload: { kind: 'bytes', bytes: new Uint8Array([1, 2, 3]) },
      fPort: 2,
      uplinkId: 'raw',
    });
    const stream = await fixture.attached();
    expect(await stream.next('uplink')).toEqual({
      ...kept,
      clientDeviceId: 'room-1',
      time: { seconds: 5, nanos: 0 },
      payload: { $case: 'json', value: { temperature: 21.5, tags: ['a', null, true] } },
      fPort: undefined,
    });
    expect(await stream.next('uplink', 2)).toMatchObject({
      uplinkId: 'raw',
      time: { seconds: expect.any(Number) },
      payload: { $case: 'bytes', value: Buffer.from([1, 2, 3]) },
      fPort: 2,
    });
    stream.ackUplink(kept.uplinkId);
    stream.send({
      $case: 'uplinkAck',
      value: {
        uplinkId: 'raw',
        outcome: UplinkOutcome.UPLINK_OUTCOME_REJECTED,
        reason: 'payload_undecodable: no profile',
      },
    });
    expect(await fixture.event('uplink_acknowledged', 1)).toEqual({
      event: 'uplink_acknowledged',
      uplinkId: 'raw',
      outcome: 'rejected',
      reason: 'payload_undecodable: no profile',
    });
    await gateway.stop();
    expect(store.uplinkCount).toBe(0);
  });

  it('are sent again after a disconnect if unacknowledged, in order and before new ones', async () => {
    const gateway = fixture.start();
    const first = await fixture.attached();
    for (const id of ['u1', 'u2', 'u3']) await gateway.send(reading(1, id));
    await first.next('uplink', 3);
    first.ackUplink('u2');
    await fixture.event('uplink_acknowledged');
    first.fail(status.UNAVAILABLE, 'gone');
    const second = await fixture.server.stream(1);
    await gateway.send(reading(1, 'u4'));
    second.welcome();
    await second.next('uplink', 3);
    expect(uplinkIds(second)).toEqual(['u1', 'u3', 'u4']);
  });

  it('are sent up to the window size, and continue with every acknowledgement', async () => {
    const gateway = fixture.start();
    const stream = await fixture.attached();
    await Promise.all(Array.from({ length: 1200 }, async (_, n) => await gateway.send(reading(n, `u${n}`))));
    await stream.next('uplink', 1000);
    stream.ackUplink('u500');
    await stream.next('uplink', 1001);
    expect(uplinkIds(stream)).toEqual(Array.from({ length: 1001 }, (_, n) => `u${n}`));
    for (let n = 0; n < 1200; n++) stream.ackUplink(`u${n}`);
    await stream.next('uplink', 1200);
    expect(uplinkIds(stream).length).toBe(1200);
  });

  it('are sent again if unacknowledged for half a minute', async () => {
    jest.useFakeTimers({
      doNotFake: [
        'setTimeout',
        'clearTimeout',
        'setImmediate',
        'clearImmediate',
        'nextTick',
        'queueMicrotask',
        'performance',
        'Date',
        'hrtime',
      ],
    });
    try {
      const gateway = fixture.start();
      const stream = await fixture.attached();
      await gateway.send(reading(1, 'u1'));
      await gateway.send(reading(2, 'u2'));
      await stream.next('uplink', 2);
      stream.ackUplink('u2');
      await fixture.event('uplink_acknowledged');
      await jest.advanceTimersByTimeAsync(30_000);
      await stream.next('uplink', 3);
      expect(uplinkIds(stream)).toEqual(['u1', 'u2', 'u1']);
    } finally {
      jest.useRealTimers();
    }
  });

  it.each([
    ['no device', { ...reading(1), clientDeviceId: ' ' }, 'clientDeviceId must be 1 to 255'],
    ['a control character in the device', { ...reading(1), clientDeviceId: 'a\u0000' }, 'clientDeviceId must'],
    ['an id that is too long', reading(1, 'u'.repeat(65)), 'uplinkId must be 1 to 64'],
    ['an empty id', reading(1, ''), 'uplinkId must be 1 to 64'],
    ['an invalid time', { ...reading(1), time: new Date(Number.NaN) }, 'time must be a valid Date'],
    ['an invalid port', { ...reading(1), fPort: 256 }, 'fPort must be a whole number from 0 to 255'],
    ['no payload', { clientDeviceId: 'a' }, 'payload must be {kind'],
    [
      'a payload that is not an object',
      { clientDeviceId: 'a', payload: { kind: 'json', value: [1] } },
      'payload.value must be an object',
    ],
    [
      'undefined in a list',
      { clientDeviceId: 'a', payload: { kind: 'json', value: { list: [1, { deep: undefined }] } } },
      'payload.value.list[1].deep must be',
    ],
    [
      'a Map',
      { clientDeviceId: 'a', payload: { kind: 'json', value: { map: new Map() } } },
      'payload.value.map must be',
    ],
    [
      'the key __proto__',
      { clientDeviceId: 'a', payload: { kind: 'json', value: JSON.parse('{"a":{"__proto__":1}}') as object } },
      'payload.value.a must not have a field `__proto__`',
    ],
    [
      '33 levels of nesting',
      { clientDeviceId: 'a', payload: { kind: 'json', value: nested(33) } },
      'must nest at most 32 levels',
    ],
    [
      'too much JSON',
      { clientDeviceId: 'a', payload: { kind: 'json', value: { text: 'x'.repeat(65_530) } } },
      'payload.value must be at most 65536 bytes as JSON (got 65541)',
    ],
    [
      'too many bytes',
      { clientDeviceId: 'a', payload: { kind: 'bytes', bytes: new Uint8Array(65_537) } },
      'payload.bytes must be at most 65536 bytes (got 65537)',
    ],
    [
      'text instead of bytes',
      { clientDeviceId: 'a', payload: { kind: 'bytes', bytes: 'abc' } },
      'payload.bytes must be a Uint8Array',
    ],
    ['nothing', undefined, 'an uplink must be an object'],
  ])('are rejected if the server would reject them: %s', async (_, uplink, message) => {
    const error = await fixture
      .start()
      .send(uplink as unknown as GatewayUplink)
      .catch((found: unknown) => found);
    expect(error).toBeInstanceOf(GatewayError);
    expect(error).toMatchObject({ reason: 'uplink_invalid', message: expect.stringContaining(message) });
  });

  it('are accepted at the exact limits', async () => {
    const gateway = fixture.start();
    await gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: nested(32) } });
    await gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: { text: 'x'.repeat(65_525) } } });
    await gateway.send({
      clientDeviceId: 'a',
      payload: { kind: 'bytes', bytes: new Uint8Array(65_536) },
      fPort: 0,
      uplinkId: 'ü'.repeat(64),
    });
    const stream = await fixture.attached();
    await stream.next('uplink', 3);
  });

  it('are rejected when the maximum number is stored, and accepted after acknowledgements', async () => {
    const gateway = fixture.start({ maxUplinks: 2 });
    await Promise.all([gateway.send(reading(1, 'u1')), gateway.send(reading(2, 'u2'))]);
    await expect(gateway.send(reading(3))).rejects.toMatchObject({
      reason: 'uplinks_full',
      message: expect.stringContaining('maxUplinks'),
    });
    const stream = await fixture.attached();
    await stream.next('uplink', 2);
    stream.ackUplink('u1');
    await fixture.event('uplink_acknowledged');
    await new Promise((resolve) => setTimeout(resolve, 60)); // The writer delays acknowledgements to batch them.
    await gateway.send(reading(3));
  });

  it('are rejected when the maximum number of bytes is stored', async () => {
    const gateway = fixture.start({ maxUplinkBytes: 100_000 });
    const large = { clientDeviceId: 'a', payload: { kind: 'bytes', bytes: new Uint8Array(60_000) } } as const;
    const sends = await Promise.allSettled([gateway.send(large), gateway.send(large), gateway.send(large)]);
    expect(sends.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    await expect(gateway.send(large)).rejects.toMatchObject({
      reason: 'uplinks_full',
      message: expect.stringMatching(/stores 2 uplinks with 120\d\d\d bytes .*maxUplinkBytes/),
    });
  });

  it('are kept if unsent, even if the server acknowledges them', async () => {
    const store = memoryStore();
    const gateway = fixture.start({ store });
    const stream = await fixture.attached();
    await Promise.all(Array.from({ length: 1200 }, async (_, n) => await gateway.send(reading(n, `u${n}`))));
    await stream.next('uplink', 1000);
    stream.ackUplink('u1190');
    stream.ackUplink('u0');
    await fixture.event('uplink_acknowledged');
    await stream.next('uplink', 1001);
    await new Promise((resolve) => setTimeout(resolve, 60)); // The writer delays acknowledgements to batch them.
    expect([store.uplinkCount, fixture.names().filter((name) => name === 'uplink_acknowledged').length]).toEqual([
      1199, 1,
    ]);
  });

  it('are skipped if they come from an earlier start and are corrupt on disk', async () => {
    const store = new ShakyStore();
    const invalidJson = new Uint8Array([0xff, 0xff, 0xff]);
    store.open({ connectionId: 'connection-1', gatewayId: undefined });
    store.apply([{ kind: 'uplink', uplink: { uplinkId: 'rotten', message: invalidJson } }]);
    store.close();
    const gateway = fixture.start({ store });
    const stream = await fixture.attached();
    await gateway.send(reading(1, 'sound'));
    expect(await stream.next('uplink')).toMatchObject({ uplinkId: 'sound' });
    expect(await fixture.event('uplink_rejected')).toMatchObject({ message: expect.stringContaining('rotten') });
    await gateway.stop(0);
    expect(store.uplinkCount).toBe(1);
  });

  it('of a source keep their order when the store rejected some', async () => {
    const store = new ShakyStore();
    store.shouldReject = ({ kind }) => kind === 'uplink';
    const more = Promise.withResolvers<void>();
    async function* source(): AsyncGenerator<GatewayUplink> {
      yield reading(0, 'u0');
      await more.promise;
      for (let n = 1; n < 5; n++) yield reading(n, `u${n}`);
    }
    fixture.start({ store, uplinks: source() });
    const stream = await fixture.attached();
    await fixture.event('store_failing');
    store.shouldReject = undefined;
    more.resolve();
    await stream.next('uplink', 5);
    expect(uplinkIds(stream)).toEqual(['u0', 'u1', 'u2', 'u3', 'u4']);
  });

  it('of a source are read only while there is space, invalid ones are skipped, and the end of the source is no event', async () => {
    let read = 0;
    async function* source(): AsyncGenerator<GatewayUplink> {
      yield { clientDeviceId: 'room-1', payload: { kind: 'json', value: { value: new Map() } } };
      for (let n = 0; n < 60; n++) {
        read += 1;
        await Promise.resolve();
        yield reading(n, `u${n}`);
      }
    }
    fixture.start({ uplinks: source(), maxUplinks: 20 });
    const stream = await fixture.attached();
    await stream.next('uplink', 20);
    expect(read).toBeLessThan(25);
    expect(await fixture.event('uplink_rejected')).toMatchObject({
      clientDeviceId: 'room-1',
      message: expect.stringContaining('payload.value.value'),
    });
    for (let n = 0; n < 60; n++) {
      await stream.next('uplink', n + 1);
      stream.ackUplink(`u${n}`);
    }
    expect(uplinkIds(stream)).toEqual(Array.from({ length: 60 }, (_, n) => `u${n}`));
  });

  it('stop with an error when their source throws', async () => {
    async function* source(): AsyncGenerator<GatewayUplink> {
      yield reading(1, 'u1');
      await Promise.resolve();
      throw new Error('the bus is gone');
    }
    const gateway = fixture.start({ uplinks: source() });
    await expect(gateway.ended).rejects.toMatchObject({
      reason: 'source_failed',
      message: expect.stringContaining('the bus is gone'),
    });
    expect(fixture.names()).toContain('source_failed');
    await expect(gateway.send(reading(1))).rejects.toMatchObject({ reason: 'stopped' });
  });

  it('report a full store to the caller, while those of a source are retried', async () => {
    const store = new ShakyStore();
    store.shouldReject = ({ kind }) => kind === 'uplink';
    const gateway: Gateway = fixture.start({
      store,
      uplinks: (async function* () {
        yield reading(1, 'from-source');
        await Promise.resolve();
      })(),
    });
    const stream = await fixture.attached();
    await fixture.event('store_failing');
    await expect(gateway.send(reading(2))).rejects.toMatchObject({ reason: 'store_full' });
    store.shouldReject = undefined;
    expect(await stream.next('uplink')).toMatchObject({ uplinkId: 'from-source' });
    expect(fixture.names().filter((name) => name.startsWith('store_'))).toEqual(['store_failing', 'store_recovered']);
  });
});

function nested(levels: number): Record<string, unknown> {
  return levels === 1 ? {} : { inner: nested(levels - 1) };
}

function uplinkIds(stream: FakeStream): string[] {
  return stream.messages.flatMap(({ $case, value }) => ($case === 'uplink' ? [value.uplinkId] : []));
}
