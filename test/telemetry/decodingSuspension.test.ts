import type { DecodeResult, Sandbox } from '../../src/codec';
import type { UplinkIdentity, UplinkMessage } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import { SeriesIdCache, UplinkDecoder, UplinkPipeline } from '../../src/telemetry';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { sqliteOnly } from '../support/engines';
import { importDecoder } from '../support/importedProfiles';

const result = (given: Partial<DecodeResult>): DecodeResult => ({
  data: undefined,
  warnings: [],
  logs: [],
  executionTimeMs: 1,
  error: undefined,
  isServerFault: false,
  ...given,
});
const GOOD = result({ data: { ok: true } });
const createTimeout = (isServerFault = false): DecodeResult =>
  result({
    executionTimeMs: 1000,
    error: { code: 'timeout', message: 'too slow', lineNumber: undefined },
    isServerFault,
  });
const createQueueFullError = (): DomainError => new DomainError('exhausted', 'codec_queue_full', 'full');
const [BAD_BYTE, GOOD_BYTE] = [255, 1];

/** Each test simulates the sandbox behind the pipeline. The clock moves only when a test advances it. */
describe.each(sqliteOnly())('uplinks whose decoder hangs or cannot run on $name', (engine) => {
  let fixture: DeviceFixture;
  let next = 0;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
  });
  afterAll(async () => await fixture.stop());

  function createDecoder(decode: Sandbox['decode']): UplinkDecoder {
    const { test, log, clock } = fixture;
    return new UplinkDecoder({ database: test.database, sandbox: { decode }, log, clock, retryMs: 1 });
  }
  function pipelineWith(decode: Sandbox['decode'], decoder = createDecoder(decode)): UplinkPipeline {
    const { test, log, positions } = fixture;
    return new UplinkPipeline({
      database: test.database,
      log,
      decoder,
      positions,
      series: new SeriesIdCache(),
      evaluateExecutions: async () => {},
    });
  }
  /** Simulates a decoder that hangs for a second when the first byte is the bad one, and records its runs. */
  function createHangingPipeline() {
    const runs: number[] = [];
    const pipeline = pipelineWith(async ({ bytes }) => {
      runs.push(bytes[0] ?? 0);
      if (bytes[0] !== BAD_BYTE) return await Promise.resolve(GOOD);
      fixture.clock.advance(1000);
      return await Promise.resolve(createTimeout());
    });
    return { pipeline, runs };
  }
  async function createBoundDevice(): Promise<string> {
    const profileId = await importDecoder(
      fixture.test.database,
      fixture.clock,
      'function decodeUplink() {}',
      `model-${(next += 1)}`,
    );
    const clientDeviceId = newId();
    await fixture.api.create({
      name: 'Sends',
      physicalDevice: { clientDeviceId, connectionId: fixture.connections[0], configuration: { profileId } },
    });
    return clientDeviceId;
  }
  function uplink(clientDeviceId: string, byte: number, overrides: Partial<UplinkMessage> = {}): UplinkMessage {
    const payload = { kind: 'bytes', bytes: Uint8Array.of(byte) } as const;
    return {
      organizationId: 'org-1',
      connectionId: fixture.connections[0],
      identity: { kind: 'id', uplinkId: newId() },
      clientDeviceId,
      receivedAt: fixture.clock.now() + 0.5,
      time: undefined,
      clock: undefined,
      payload,
      fPort: 2,
      ...overrides,
    };
  }
  async function keys(clientDeviceId: string): Promise<Record<string, unknown>> {
    const rows = (await fixture.test.database.db
      .knex('connector_keys')
      .where({ connection_id: fixture.connections[0], client_device_id: clientDeviceId })) as {
      name: string;
      value: string;
    }[];
    return Object.fromEntries(rows.map(({ name, value }) => [name, JSON.parse(value) as unknown]));
  }

  it.each([
    ['bad, bad, good', [BAD_BYTE, BAD_BYTE, GOOD_BYTE]],
    ['bad, good', [BAD_BYTE, GOOD_BYTE]],
  ])('cost only a few seconds of each minute when the device repeatedly sends %s', async (_name, pattern) => {
    const clientDeviceId = await createBoundDevice();
    const { pipeline, runs } = createHangingPipeline();
    const began = fixture.clock.now();
    for (let at = 0; at < 150; at += 1)
      await pipeline.handle(uplink(clientDeviceId, pattern[at % pattern.length] ?? 0));
    expect([fixture.clock.now() - began, runs.filter((byte) => byte === BAD_BYTE).length]).toEqual([4000, 4]);
    expect((await keys(clientDeviceId))['decodeError']).toMatch(/^decoder_paused: /);
    fixture.clock.advance(60_001);
    await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE));
    expect(runs.at(-1)).toBe(GOOD_BYTE);
  });

  it('count all attempts of an uplink that failed because of the machine', async () => {
    const clientDeviceId = await createBoundDevice();
    let runs = 0;
    const pipeline = pipelineWith(async () => {
      runs += 1;
      return await Promise.resolve(runs % 4 === 0 ? GOOD : createTimeout(true));
    });
    for (let times = 0; times < 10; times += 1) await pipeline.handle(uplink(clientDeviceId, BAD_BYTE));
    expect(runs).toBe(7); // Three bad uplinks, a good one and three more bad ones cost 6 s.
  });

  const delivery = { kind: 'delivery', slot: '7', digest: 'd' } as const;

  it.each<[string, UplinkIdentity, UplinkIdentity]>([
    ['an id', { kind: 'id', uplinkId: 'same' }, { kind: 'id', uplinkId: 'same' }],
    ['a delivery', { ...delivery, isRepetition: false }, { ...delivery, isRepetition: true }],
  ])('are not decoded again when they are already stored, identified by %s', async (_name, identity, repeated) => {
    const clientDeviceId = await createBoundDevice();
    const { pipeline, runs } = createHangingPipeline();
    expect(await pipeline.handle(uplink(clientDeviceId, BAD_BYTE, { identity }))).toEqual({ outcome: 'stored' });
    for (let times = 0; times < 4; times += 1)
      expect(await pipeline.handle(uplink(clientDeviceId, BAD_BYTE, { identity: repeated }))).toEqual({
        outcome: 'duplicate',
      });
    expect(runs).toEqual([BAD_BYTE]);
    await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE));
    expect(await keys(clientDeviceId)).toMatchObject({ 'object.ok': true });
  });

  it('are decoded when they only resemble a stored uplink: same slot with another digest, delivered before the acknowledgement, or without an identity', async () => {
    const clientDeviceId = await createBoundDevice();
    const { pipeline, runs } = createHangingPipeline();
    const storedIdentity = { ...delivery, slot: newId(), isRepetition: false };
    const sent = async (identity: UplinkIdentity): Promise<unknown> =>
      (await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE, { identity }))).outcome;
    expect(await sent(storedIdentity)).toBe('stored');
    expect(await sent(storedIdentity)).toBe('stored');
    expect(await sent({ ...storedIdentity, digest: 'e', isRepetition: true })).toBe('stored');
    expect(
      await sent({ ...storedIdentity, digest: 'e', isRepetition: true, acknowledgedBefore: fixture.clock.now() + 10 }),
    ).toBe('stored');
    expect(
      await sent({ ...storedIdentity, digest: 'e', isRepetition: true, acknowledgedBefore: fixture.clock.now() }),
    ).toBe('duplicate');
    for (let times = 0; times < 2; times += 1) expect(await sent({ kind: 'none' })).toBe('stored');
    expect(runs).toHaveLength(6);
  });

  it('count once when copies of one uplink arrive in parallel', async () => {
    const clientDeviceId = await createBoundDevice();
    const { pipeline, runs } = createHangingPipeline();
    const one = uplink(clientDeviceId, BAD_BYTE);
    const outcomes = await Promise.all(Array.from({ length: 4 }, async () => (await pipeline.handle(one)).outcome));
    expect(outcomes.toSorted()).toEqual(['duplicate', 'duplicate', 'duplicate', 'stored']);
    await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE));
    expect(runs.at(-1)).toBe(GOOD_BYTE);
  });

  it('wait up to ten seconds while the sandbox is full; later uplinks do not wait until it has capacity again', async () => {
    const clientDeviceId = await createBoundDevice();
    let [attempts, isFull] = [0, true];
    const pipeline = pipelineWith(async () => {
      attempts += 1;
      if (attempts === 9) isFull = false;
      if (!isFull) return await Promise.resolve(GOOD);
      fixture.clock.advance(1000);
      throw createQueueFullError();
    });
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect([attempts, await keys(clientDeviceId)]).toEqual([9, { bytes: '01', fPort: 2, 'object.ok': true }]);
    [attempts, isFull] = [9, true];
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect([attempts, (await keys(clientDeviceId))['decodeError']]).toEqual([19, 'codec_queue_full: full']);
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect(attempts).toBe(20);
    fixture.clock.advance(10_001); // The sandbox may have had capacity in the meantime.
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect(attempts).toBe(30);
  });

  it('are left for redelivery immediately when the server stops while they wait', async () => {
    const clientDeviceId = await createBoundDevice();
    let [began, isFull] = [Promise.withResolvers<void>(), true];
    const decode = async (): Promise<typeof GOOD> => {
      began.resolve();
      if (isFull) throw createQueueFullError();
      return await Promise.resolve(GOOD);
    };
    const decoder = createDecoder(decode);
    const pipeline = pipelineWith(decode, decoder);
    const waiting = pipeline.handle(uplink(clientDeviceId, 1));
    await began.promise;
    decoder.stop();
    await expect(waiting).rejects.toMatchObject({ reason: 'shutting_down' });
    began = Promise.withResolvers();
    await expect(pipeline.handle(uplink(clientDeviceId, 1))).rejects.toMatchObject({ reason: 'shutting_down' });
    isFull = false;
    expect(await pipeline.handle(uplink(clientDeviceId, 1))).toEqual({ outcome: 'stored' });
  });
});
