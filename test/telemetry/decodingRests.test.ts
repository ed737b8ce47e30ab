import type { DecodeResult, Sandbox } from '../../src/codec';
import type { UplinkIdentity, UplinkMessage } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import { SeriesNumbers, UplinkDecoder, UplinkPipeline } from '../../src/telemetry';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';
import { importDecoder } from '../support/importedProfiles';

const result = (given: Partial<DecodeResult>): DecodeResult => ({ data: undefined, warnings: [], logs: [], executionTimeMs: 1, error: undefined, blameless: false, ...given });
const GOOD = result({ data: { ok: true } });
const hang = (blameless = false): DecodeResult => result({ executionTimeMs: 1000, error: { code: 'timeout', message: 'too slow', lineNumber: undefined }, blameless });
const full = (): DomainError => new DomainError('exhausted', 'sandbox_busy', 'full');
const [BAD_BYTE, GOOD_BYTE] = [255, 1];

/** A pipeline before a sandbox that each test plays, on a clock that stands still unless it moves it. */
describe.each(engines())('uplinks whose decoder hangs or cannot run on $name', (engine) => {
  let room: DeviceRoom;
  let next = 0;
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
  });
  afterAll(async () => await room.stop());

  function pipelineWith(decode: Sandbox['decode']): UplinkPipeline {
    const { test, log, clock, positions } = room;
    const decoder = new UplinkDecoder({ database: test.database, sandbox: { decode }, log, clock, retryMs: 1 });
    return new UplinkPipeline({ database: test.database, log, decoder, positions, series: new SeriesNumbers(), judge: async () => {} });
  }
  /** Hangs for a second where the first byte is the bad one; counts what it runs. */
  function hanging() {
    const runs: number[] = [];
    const pipeline = pipelineWith(async ({ bytes }) => {
      runs.push(bytes[0] ?? 0);
      if (bytes[0] !== BAD_BYTE) return await Promise.resolve(GOOD);
      room.clock.advance(1000);
      return await Promise.resolve(hang());
    });
    return { pipeline, runs };
  }
  async function bound(): Promise<string> {
    const profileId = await importDecoder(room.test.database, room.clock, 'function decodeUplink() {}', `model-${(next += 1)}`);
    const clientDeviceId = newId();
    await room.api.create({ name: 'Sends', physicalDevice: { clientDeviceId, connectionId: room.connections[0], configuration: { profileId } } });
    return clientDeviceId;
  }
  function uplink(clientDeviceId: string, byte: number, overrides: Partial<UplinkMessage> = {}): UplinkMessage {
    const payload = { kind: 'bytes', bytes: Uint8Array.of(byte) } as const;
    return { organizationId: 'org-1', connectionId: room.connections[0], identity: { kind: 'id', uplinkId: newId() }, clientDeviceId, receivedAt: room.clock.now() + 0.5, time: undefined, clock: undefined, payload, fPort: 2, ...overrides };
  }
  async function keys(clientDeviceId: string): Promise<Record<string, unknown>> {
    const rows = (await room.test.database.db.knex('connector_keys').where({ connection_id: room.connections[0], client_device_id: clientDeviceId })) as { name: string; value: string }[];
    return Object.fromEntries(rows.map(({ name, value }) => [name, JSON.parse(value) as unknown]));
  }

  it.each([
    ['bad, bad, good', [BAD_BYTE, BAD_BYTE, GOOD_BYTE]],
    ['bad, good', [BAD_BYTE, GOOD_BYTE]],
  ])('cost a few seconds of each minute where the device sends %s over and over', async (_name, pattern) => {
    const clientDeviceId = await bound();
    const { pipeline, runs } = hanging();
    const began = room.clock.now();
    for (let at = 0; at < 150; at += 1) await pipeline.handle(uplink(clientDeviceId, pattern[at % pattern.length] ?? 0));
    expect([room.clock.now() - began, runs.filter((byte) => byte === BAD_BYTE).length]).toEqual([4000, 4]);
    expect((await keys(clientDeviceId))['decodeError']).toMatch(/^decoder_rests: /);
    room.clock.advance(60_001);
    await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE));
    expect(runs.at(-1)).toBe(GOOD_BYTE);
  });

  it('count all attempts of an uplink where the machine spoiled them', async () => {
    const clientDeviceId = await bound();
    let runs = 0;
    const pipeline = pipelineWith(async () => {
      runs += 1;
      return await Promise.resolve(runs % 4 === 0 ? GOOD : hang(true));
    });
    for (let times = 0; times < 10; times += 1) await pipeline.handle(uplink(clientDeviceId, BAD_BYTE));
    expect(runs).toBe(7); // three, a good one, three more: 6 s
  });

  const delivery = { kind: 'delivery', slot: '7', digest: 'd' } as const;

  it.each<[string, UplinkIdentity, UplinkIdentity]>([
    ['an id', { kind: 'id', uplinkId: 'same' }, { kind: 'id', uplinkId: 'same' }],
    ['a delivery', { ...delivery, isRepetition: false }, { ...delivery, isRepetition: true }],
  ])('are not decoded again when they are stored already, told by %s', async (_name, identity, repeated) => {
    const clientDeviceId = await bound();
    const { pipeline, runs } = hanging();
    expect(await pipeline.handle(uplink(clientDeviceId, BAD_BYTE, { identity }))).toEqual({ outcome: 'stored' });
    for (let times = 0; times < 4; times += 1) expect(await pipeline.handle(uplink(clientDeviceId, BAD_BYTE, { identity: repeated }))).toEqual({ outcome: 'duplicate' });
    expect(runs).toEqual([BAD_BYTE]);
    await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE));
    expect(await keys(clientDeviceId)).toMatchObject({ 'object.ok': true });
  });

  it('are decoded where they only look like what was stored: in the slot of another, before the transport knew, without a name', async () => {
    const clientDeviceId = await bound();
    const { pipeline, runs } = hanging();
    const seen = { ...delivery, slot: newId(), isRepetition: false };
    const sent = async (identity: UplinkIdentity): Promise<unknown> => (await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE, { identity }))).outcome;
    expect(await sent(seen)).toBe('stored');
    expect(await sent(seen)).toBe('stored');
    expect(await sent({ ...seen, digest: 'e', isRepetition: true })).toBe('stored');
    expect(await sent({ ...seen, digest: 'e', isRepetition: true, acknowledgedBefore: room.clock.now() + 10 })).toBe('stored');
    expect(await sent({ ...seen, digest: 'e', isRepetition: true, acknowledgedBefore: room.clock.now() })).toBe('duplicate');
    for (let times = 0; times < 2; times += 1) expect(await sent({ kind: 'none' })).toBe('stored');
    expect(runs).toHaveLength(6);
  });

  it('count once where one comes several times at once', async () => {
    const clientDeviceId = await bound();
    const { pipeline, runs } = hanging();
    const one = uplink(clientDeviceId, BAD_BYTE);
    const outcomes = await Promise.all(Array.from({ length: 4 }, async () => (await pipeline.handle(one)).outcome));
    expect(outcomes.toSorted()).toEqual(['duplicate', 'duplicate', 'duplicate', 'stored']);
    await pipeline.handle(uplink(clientDeviceId, GOOD_BYTE));
    expect(runs.at(-1)).toBe(GOOD_BYTE);
  });

  it('wait while the sandbox has no room, up to ten seconds; then nobody waits until it has some again', async () => {
    const clientDeviceId = await bound();
    let [asked, isFull] = [0, true];
    const pipeline = pipelineWith(async () => {
      asked += 1;
      if (asked === 9) isFull = false;
      if (!isFull) return await Promise.resolve(GOOD);
      room.clock.advance(1000);
      throw full();
    });
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect([asked, await keys(clientDeviceId)]).toEqual([9, { bytes: '01', fPort: 2, 'object.ok': true }]);
    [asked, isFull] = [9, true];
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect([asked, (await keys(clientDeviceId))['decodeError']]).toEqual([19, 'sandbox_busy: full']);
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect(asked).toBe(20);
    room.clock.advance(10_001); // it may have had room meanwhile
    await pipeline.handle(uplink(clientDeviceId, 1));
    expect(asked).toBe(30);
  });

  it('are left to come again at once when the server stops while they wait', async () => {
    const clientDeviceId = await bound();
    let [began, isFull] = [Promise.withResolvers<void>(), true];
    const pipeline = pipelineWith(async () => {
      began.resolve();
      if (isFull) throw full();
      return await Promise.resolve(GOOD);
    });
    const waiting = pipeline.handle(uplink(clientDeviceId, 1));
    await began.promise;
    pipeline.stop();
    await expect(waiting).rejects.toMatchObject({ reason: 'shutting_down' });
    began = Promise.withResolvers();
    await expect(pipeline.handle(uplink(clientDeviceId, 1))).rejects.toMatchObject({ reason: 'shutting_down' });
    isFull = false;
    expect(await pipeline.handle(uplink(clientDeviceId, 1))).toEqual({ outcome: 'stored' });
  });
});
