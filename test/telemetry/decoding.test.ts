import { type DecodeRequest, type DecodeResult, Sandbox } from '../../src/codec';
import type { UplinkMessage } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import { SeriesNumbers, UplinkDecoder, UplinkPipeline } from '../../src/telemetry';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';
import { importDecoder } from '../support/importedProfiles';

const TEMPERATURE = 'function decodeUplink(input) { return { data: { temperature: (input.bytes[0] << 8 | input.bytes[1]) / 10, port: input.fPort, at: input.recvTime.getTime(), offset: Number(input.variables.offset) } }; }';

const result = (given: Partial<DecodeResult>): DecodeResult => ({ data: undefined, warnings: [], logs: [], executionTimeMs: 1, error: undefined, blameless: false, ...given });

describe.each(engines())('uplinks of bytes on $name', (engine) => {
  let room: DeviceRoom;
  let sandbox: Sandbox;
  let pipeline: UplinkPipeline;
  let next = 0;
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
    sandbox = new Sandbox({ workers: 2, scriptMs: 5000, hardMs: 20_000, log: room.log });
    pipeline = pipelineWith(sandbox);
  });
  afterAll(async () => {
    await sandbox.stop();
    await room.stop();
  });

  function pipelineWith(runs: Pick<Sandbox, 'decode'>): UplinkPipeline {
    const { test, log, clock, positions, judged } = room;
    const decoder = new UplinkDecoder({ database: test.database, sandbox: runs, log, clock, retryMs: 1 });
    return new UplinkPipeline({ database: test.database, log, decoder, positions, series: new SeriesNumbers(), judge: async (_db, uplink) => void judged.push(uplink) });
  }
  /** A device whose profile has this decoder, with a number sensor for `object.temperature`. */
  async function sending(decoder: string | undefined, configuration: Record<string, unknown> = {}) {
    const model = `model-${(next += 1)}`;
    const profileId = await importDecoder(room.test.database, room.clock, decoder, model);
    const clientDeviceId = newId();
    const { id } = await room.api.create({ name: model, physicalDevice: { clientDeviceId, connectionId: room.connections[0], configuration: { profileId, ...configuration } } });
    const { sensors } = await room.api.addSensors({ id, sensorTemplateIds: [room.templates[0]] });
    const sensorId = sensors[0]?.id ?? '';
    await room.api.setMappings({ id, mappings: [{ sensorId, sourcePath: 'object.temperature' }] });
    return { id, clientDeviceId, model, sensorId };
  }
  function uplink(clientDeviceId: string, overrides: Partial<UplinkMessage> = {}): UplinkMessage {
    const payload = { kind: 'bytes', bytes: Uint8Array.of(0, 215) } as const;
    return { organizationId: 'org-1', connectionId: room.connections[0], identity: { kind: 'id', uplinkId: newId() }, clientDeviceId, receivedAt: room.clock.now() + 0.5, time: undefined, clock: undefined, payload, fPort: 2, ...overrides };
  }
  async function keys(clientDeviceId: string): Promise<Record<string, unknown>> {
    const rows = (await room.test.database.db.knex('connector_keys').where({ connection_id: room.connections[0], client_device_id: clientDeviceId })) as { name: string; value: string }[];
    return Object.fromEntries(rows.map(({ name, value }) => [name, JSON.parse(value) as unknown]));
  }
  const readings = (sensorId: string): unknown => room.judged.flatMap((uplinks) => uplinks.readings).filter((reading) => reading.sensorId === sensorId).map(({ value }) => value);

  it('are decoded with the profile of their device: readings and keys appear beside the bytes', async () => {
    const { clientDeviceId, sensorId } = await sending(TEMPERATURE, { variables: { offset: '4' } });
    expect(await pipeline.handle(uplink(clientDeviceId))).toEqual({ outcome: 'stored' });
    expect(await keys(clientDeviceId)).toEqual({ bytes: '00d7', fPort: 2, 'object.temperature': 21.5, 'object.port': 2, 'object.at': room.clock.now(), 'object.offset': 4 });
    expect(readings(sensorId)).toEqual([21.5]);
  });

  it('are decoded without a port, on port 0, and beside what a network server said of them', async () => {
    const decoder = 'function decodeUplink(input) { return { data: { port: "fPort" in input ? String(input.fPort) : "none" } }; }';
    const { clientDeviceId } = await sending(decoder);
    await pipeline.handle(uplink(clientDeviceId, { fPort: undefined }));
    expect(await keys(clientDeviceId)).toEqual({ bytes: '00d7', 'object.port': 'none' });
    await pipeline.handle(uplink(clientDeviceId, { fPort: 0 }));
    expect(await keys(clientDeviceId)).toMatchObject({ fPort: 0, 'object.port': '0' });
    const other = await sending(decoder);
    await pipeline.handle(uplink(other.clientDeviceId, { payload: { kind: 'json', value: { data: '00d7', rssi: -80 } }, encoded: Uint8Array.of(0, 215) }));
    expect(await keys(other.clientDeviceId)).toEqual({ data: '00d7', rssi: -80, 'object.port': '2' });
    const digit = await sending(decoder);
    await pipeline.handle(uplink(digit.clientDeviceId, { payload: { kind: 'json', value: { value: 5 } }, encoded: Uint8Array.of(0x35), fPort: undefined }));
    expect(await keys(digit.clientDeviceId)).toEqual({ value: 5, 'object.port': 'none' });
  });

  it('stay as they are without a profile, without a decoder, without a device, where there are none, and where somebody decoded them', async () => {
    const untouched = { decode: async (): Promise<never> => await Promise.reject(new Error('nothing is to be decoded here')) };
    const still = pipelineWith(untouched);
    const encoderOnly = await sending(undefined);
    await still.handle(uplink(encoderOnly.clientDeviceId));
    expect(await keys(encoderOnly.clientDeviceId)).toEqual({ bytes: '00d7', fPort: 2 });
    const stray = newId();
    await still.handle(uplink(stray));
    expect(await keys(stray)).toEqual({ bytes: '00d7', fPort: 2 });
    const { clientDeviceId, id } = await sending(TEMPERATURE);
    expect(await still.handle(uplink(clientDeviceId, { payload: { kind: 'bytes', bytes: new Uint8Array() } }))).toEqual({ outcome: 'stored' });
    expect(await still.handle(uplink(clientDeviceId, { payload: { kind: 'json', value: { object: { t: 1 } } } }))).toEqual({ outcome: 'stored' });
    expect(await still.handle(uplink(clientDeviceId, { organizationId: 'org-2', connectionId: room.connections[1] }))).toEqual({ outcome: 'stored' });
    await room.api.update({ id, physicalDevice: { configuration: {} } });
    expect(await still.handle(uplink(clientDeviceId))).toEqual({ outcome: 'stored' });
  });

  it.each([
    ['throws', 'function decodeUplink() { throw new Error("no such frame"); }', /^runtime_error: .*no such frame.* \(line 1\)$/],
    ['says so', 'function decodeUplink() { return { errors: ["unknown port"] }; }', /^decoder_errors: .*unknown port/],
    ['gives no data', 'function decodeUplink() { return {}; }', /^bad_output: /],
    ['is none', 'function decodeUplink(', /^syntax_error: /],
    ['gives what is too deep beside the rest', 'function decodeUplink() { var v = 1; for (var i = 0; i < 31; i++) v = { v: v }; return { data: v }; }', /^bad_output: what the decoder returned is nested deeper than 32 levels/],
    ['gives a name that would get lost', 'function decodeUplink() { return { data: JSON.parse(\'{"__proto__": 1}\') }; }', /^bad_output: .*__proto__/],
    ['says what cannot be stored', 'function decodeUplink() { throw new Error("a\\ud800b\\u0000\\u001b[2J\\nc"); }', /^runtime_error: Error: a\ufffdb\\u0000\\u001b\[2J\nc \(line 1\)$/],
    ['complains at length', 'function decodeUplink() { throw new Error("\\u{1F321}".repeat(3000)); }', /^runtime_error: .{1,500}$/su],
  ])('are stored with the reason where the decoder %s', async (_name, script, reason) => {
    const { clientDeviceId, sensorId } = await sending(script);
    room.log.lines.splice(0);
    for (let times = 0; times < 5; times += 1) expect(await pipeline.handle(uplink(clientDeviceId))).toEqual({ outcome: 'stored' });
    const { decodeError, ...rest } = await keys(clientDeviceId);
    expect(decodeError).toMatch(reason);
    expect((decodeError as string).length).toBeLessThanOrEqual(500);
    expect((decodeError as string).isWellFormed()).toBe(true);
    expect(rest).toEqual({ bytes: '00d7', fPort: 2 });
    expect(readings(sensorId)).toEqual([]);
    const told = room.log.of('telemetry.decode_failed');
    expect(told.map(({ failures }) => failures)).toEqual([1, 2, 4]);
    expect(told[0]).toMatchObject({ client_device_id: clientDeviceId, code: (decodeError as string).split(':')[0] });
  });

  it('are decoded all the same where the decoder warns', async () => {
    const { clientDeviceId } = await sending('function decodeUplink() { return { data: { ok: true }, warnings: ["low battery"] }; }');
    await pipeline.handle(uplink(clientDeviceId));
    expect(await keys(clientDeviceId)).toEqual({ bytes: '00d7', fPort: 2, 'object.ok': true });
  });

  it('are decoded by what an import of another process brought, from the next one on', async () => {
    const { clientDeviceId, model } = await sending('function decodeUplink() { return { data: { version: 1 } }; }');
    await pipeline.handle(uplink(clientDeviceId));
    expect(await keys(clientDeviceId)).toMatchObject({ 'object.version': 1 });
    const other = await room.test.open();
    try {
      await importDecoder(other, room.clock, 'function Decode(fPort, bytes) { return { version: bytes.length }; }', model);
    } finally {
      await other.close();
    }
    await pipeline.handle(uplink(clientDeviceId));
    expect(await keys(clientDeviceId)).toMatchObject({ 'object.version': 2 });
  });

  it('are stored once when they come again', async () => {
    const { clientDeviceId, sensorId } = await sending(TEMPERATURE);
    const message = uplink(clientDeviceId);
    const outcomes = await Promise.all([message, message, message].map(async (one) => (await pipeline.handle(one)).outcome));
    expect(outcomes.toSorted()).toEqual(['duplicate', 'duplicate', 'stored']);
    expect(readings(sensorId)).toEqual([21.5]);
  });

  const overrun = result({ error: { code: 'timeout', message: 'too slow', lineNumber: undefined } });
  const good = result({ data: { temperature: 1 } });

  it('are tried again while the sandbox has no room, after ten seconds stored with that reason', async () => {
    const { clientDeviceId } = await sending(TEMPERATURE);
    const answers: (DecodeResult | DomainError)[] = [new DomainError('exhausted', 'sandbox_busy', 'full'), result({ blameless: true, error: overrun.error }), good];
    const asked: DecodeRequest[] = [];
    const decode = async (request: DecodeRequest): Promise<DecodeResult> => {
      asked.push(request);
      const answer = answers.shift() ?? new DomainError('unavailable', 'sandbox_unavailable', 'no threads');
      if (!(answer instanceof DomainError)) return answer;
      room.clock.advance(5000);
      throw answer;
    };
    const trying = pipelineWith({ decode });
    await trying.handle(uplink(clientDeviceId));
    expect([(await keys(clientDeviceId))['object.temperature'], asked.length]).toEqual([1, 3]);
    expect(await trying.handle(uplink(clientDeviceId))).toEqual({ outcome: 'stored' });
    expect([(await keys(clientDeviceId))['decodeError'], asked.length]).toEqual(['sandbox_unavailable: no threads', 5]);
  });

  it('count as overrun where the machine could not run the decoder at the third attempt either: it may hang where nothing can stop it', async () => {
    const { clientDeviceId } = await sending(TEMPERATURE);
    let runs = 0;
    const starving = pipelineWith({
      decode: async () => {
        runs += 1;
        return await Promise.resolve(result({ blameless: true, error: overrun.error }));
      },
    });
    for (let times = 0; times < 4; times += 1) await starving.handle(uplink(clientDeviceId));
    expect([runs, (await keys(clientDeviceId))['decodeError']]).toEqual([9, expect.stringMatching(/^decoder_rests/)]);
  });

  it('are neither stored nor acknowledged when the server stops: they come again', async () => {
    const { clientDeviceId } = await sending(TEMPERATURE);
    const stopping = pipelineWith({ decode: async () => await Promise.reject(new DomainError('unavailable', 'shutting_down', 'the server is shutting down')) });
    const message = uplink(clientDeviceId);
    await expect(stopping.handle(message)).rejects.toMatchObject({ reason: 'shutting_down' });
    expect(await keys(clientDeviceId)).toEqual({});
    expect(await pipeline.handle(message)).toEqual({ outcome: 'stored' });
  });

  it('are stored undecoded for a minute once the decoder overran three times in a row, for its device and under its own owner', async () => {
    const { clientDeviceId, model } = await sending(TEMPERATURE);
    const profileId = await importDecoder(room.test.database, room.clock, TEMPERATURE, model);
    const others = await Promise.all([1, 2, 3].map(async () => newId()));
    for (const other of others) await room.api.create({ name: 'Other', physicalDevice: { clientDeviceId: other, connectionId: room.connections[0], configuration: { profileId } } });
    const slow = new Set([clientDeviceId]);
    const runs: string[] = [];
    const owners = new Set<string>();
    let current = '';
    const resting = pipelineWith({
      decode: async ({ owner }) => {
        runs.push(current);
        owners.add(owner);
        return await Promise.resolve(slow.has(current) ? overrun : good);
      },
    });
    const send = async (device: string): Promise<unknown> => {
      current = device;
      await resting.handle(uplink(device));
      return (await keys(device))['decodeError'];
    };
    for (let times = 0; times < 3; times += 1) expect(await send(clientDeviceId)).toBe('timeout: too slow');
    expect(await send(clientDeviceId)).toMatch(/^decoder_rests: .* it is tried again in 60 s$/);
    expect(runs).toHaveLength(3);
    expect(owners.size).toBe(2);
    for (const other of others) expect(await send(other)).toBeUndefined();
    room.clock.advance(60_001);
    expect(await send(clientDeviceId)).toBe('timeout: too slow');
    expect(await send(clientDeviceId)).toMatch(/^decoder_rests/);
    room.clock.advance(60_001);
    slow.clear();
    await send(clientDeviceId);
    expect(runs.filter((run) => run === clientDeviceId)).toHaveLength(5);
    for (const other of others) slow.add(other);
    for (const other of others) expect(await send(other)).toBe('timeout: too slow');
    expect(await send(clientDeviceId)).toMatch(/^decoder_rests/);
  });
});
