import { type DecodeRequest, type DecodeResult, Sandbox } from '../../src/codec';
import type { UplinkMessage } from '../../src/connections';
import { DomainError } from '../../src/kernel/errors';
import { newId } from '../../src/kernel/ids';
import { SeriesIdCache, UplinkDecoder, UplinkPipeline } from '../../src/telemetry';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { sqliteOnly } from '../support/engines';
import { importDecoder } from '../support/importedProfiles';

const TEMPERATURE =
  'function decodeUplink(input) { return { data: { temperature: (input.bytes[0] << 8 | input.bytes[1]) / 10, port: input.fPort, at: input.recvTime.getTime(), offset: Number(input.variables.offset) } }; }';

const result = (given: Partial<DecodeResult>): DecodeResult => ({
  data: undefined,
  warnings: [],
  logs: [],
  executionTimeMs: 1,
  error: undefined,
  isServerFault: false,
  ...given,
});

describe.each(sqliteOnly())('uplinks with bytes on $name', (engine) => {
  let fixture: DeviceFixture;
  let sandbox: Sandbox;
  let pipeline: UplinkPipeline;
  let next = 0;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
    sandbox = new Sandbox({ workers: 2, timeoutMs: 5000, hardTimeoutMs: 20_000, log: fixture.log });
    pipeline = pipelineWith(sandbox);
  });
  afterAll(async () => {
    await sandbox.stop();
    await fixture.stop();
  });

  function pipelineWith(runs: Pick<Sandbox, 'decode'>): UplinkPipeline {
    const { test, log, clock, positions, judged } = fixture;
    const decoder = new UplinkDecoder({ database: test.database, sandbox: runs, log, clock, retryMs: 1 });
    return new UplinkPipeline({
      database: test.database,
      log,
      decoder,
      positions,
      series: new SeriesIdCache(),
      evaluateExecutions: async (_db, uplink) => void judged.push(uplink),
    });
  }
  /** Creates a bound device whose profile has this decoder, with a number sensor for `object.temperature`. */
  async function createSendingDevice(decoder: string | undefined, configuration: Record<string, unknown> = {}) {
    const model = `model-${(next += 1)}`;
    const profileId = await importDecoder(fixture.test.database, fixture.clock, decoder, model);
    const clientDeviceId = newId();
    const { id } = await fixture.api.create({
      name: model,
      physicalDevice: {
        clientDeviceId,
        connectionId: fixture.connections[0],
        configuration: { profileId, ...configuration },
      },
    });
    const { sensors } = await fixture.api.addSensors({ id, sensorTemplateIds: [fixture.templates[0]] });
    const sensorId = sensors[0]?.id ?? '';
    await fixture.api.setMappings({ id, mappings: [{ sensorId, sourcePath: 'object.temperature' }] });
    return { id, clientDeviceId, model, sensorId };
  }
  function uplink(clientDeviceId: string, overrides: Partial<UplinkMessage> = {}): UplinkMessage {
    const payload = { kind: 'bytes', bytes: Uint8Array.of(0, 215) } as const;
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
  const readings = (sensorId: string): unknown =>
    fixture.judged
      .flatMap((uplinks) => uplinks.readings)
      .filter((reading) => reading.sensorId === sensorId)
      .map(({ value }) => value);

  it('are decoded with the profile of their device: readings and keys are stored with the bytes', async () => {
    const { clientDeviceId, sensorId } = await createSendingDevice(TEMPERATURE, { variables: { offset: '4' } });
    expect(await pipeline.handle(uplink(clientDeviceId))).toEqual({ outcome: 'stored' });
    expect(await keys(clientDeviceId)).toEqual({
      bytes: '00d7',
      fPort: 2,
      'object.temperature': 21.5,
      'object.port': 2,
      'object.at': fixture.clock.now(),
      'object.offset': 4,
    });
    expect(readings(sensorId)).toEqual([21.5]);
  });

  it('are decoded without a port, on port 0, and together with metadata of a network server', async () => {
    const decoder =
      'function decodeUplink(input) { return { data: { port: "fPort" in input ? String(input.fPort) : "none" } }; }';
    const { clientDeviceId } = await createSendingDevice(decoder);
    await pipeline.handle(uplink(clientDeviceId, { fPort: undefined }));
    expect(await keys(clientDeviceId)).toEqual({ bytes: '00d7', 'object.port': 'none' });
    await pipeline.handle(uplink(clientDeviceId, { fPort: 0 }));
    expect(await keys(clientDeviceId)).toMatchObject({ fPort: 0, 'object.port': '0' });
    const other = await createSendingDevice(decoder);
    await pipeline.handle(
      uplink(other.clientDeviceId, {
        payload: { kind: 'json', value: { data: '00d7', rssi: -80 } },
        encoded: Uint8Array.of(0, 215),
      }),
    );
    expect(await keys(other.clientDeviceId)).toEqual({ data: '00d7', rssi: -80, 'object.port': '2' });
    const digit = await createSendingDevice(decoder);
    await pipeline.handle(
      uplink(digit.clientDeviceId, {
        payload: { kind: 'json', value: { value: 5 } },
        encoded: Uint8Array.of(0x35),
        fPort: undefined,
      }),
    );
    expect(await keys(digit.clientDeviceId)).toEqual({ value: 5, 'object.port': 'none' });
  });

  it('are stored unchanged without a profile, decoder, device or bytes, and when they are already decoded', async () => {
    const untouched = {
      decode: async (): Promise<never> => await Promise.reject(new Error('nothing is to be decoded here')),
    };
    const still = pipelineWith(untouched);
    const encoderOnly = await createSendingDevice(undefined);
    await still.handle(uplink(encoderOnly.clientDeviceId));
    expect(await keys(encoderOnly.clientDeviceId)).toEqual({ bytes: '00d7', fPort: 2 });
    const unboundId = newId();
    await still.handle(uplink(unboundId));
    expect(await keys(unboundId)).toEqual({ bytes: '00d7', fPort: 2 });
    const { clientDeviceId, id } = await createSendingDevice(TEMPERATURE);
    expect(await still.handle(uplink(clientDeviceId, { payload: { kind: 'bytes', bytes: new Uint8Array() } }))).toEqual(
      { outcome: 'stored' },
    );
    expect(
      await still.handle(uplink(clientDeviceId, { payload: { kind: 'json', value: { object: { t: 1 } } } })),
    ).toEqual({ outcome: 'stored' });
    expect(
      await still.handle(uplink(clientDeviceId, { organizationId: 'org-2', connectionId: fixture.connections[1] })),
    ).toEqual({ outcome: 'stored' });
    await fixture.api.update({ id, physicalDevice: { configuration: {} } });
    expect(await still.handle(uplink(clientDeviceId))).toEqual({
      outcome: 'stored',
      unreadable: expect.stringMatching(/^not_json: .* no profile that decodes bytes$/) as string,
    });
  });

  it.each([
    [
      'throws',
      'function decodeUplink() { throw new Error("no such frame"); }',
      /^runtime_error: .*no such frame.* \(line 1\)$/,
    ],
    [
      'returns errors',
      'function decodeUplink() { return { errors: ["unknown port"] }; }',
      /^decoder_errors: .*unknown port/,
    ],
    ['returns no data', 'function decodeUplink() { return {}; }', /^bad_output: /],
    ['has a syntax error', 'function decodeUplink(', /^syntax_error: /],
    [
      'returns an object that is too deep',
      'function decodeUplink() { var v = 1; for (var i = 0; i < 31; i++) v = { v: v }; return { data: v }; }',
      /^bad_output: the result of the decoder is nested deeper than 32 levels/,
    ],
    [
      'returns a forbidden name',
      'function decodeUplink() { return { data: JSON.parse(\'{"__proto__": 1}\') }; }',
      /^bad_output: .*__proto__/,
    ],
    [
      'throws a message that cannot be stored',
      'function decodeUplink() { throw new Error("a\\ud800b\\u0000\\u001b[2J\\nc"); }',
      /^runtime_error: Error: a\ufffdb\\u0000\\u001b\[2J\nc \(line 1\)$/,
    ],
    [
      'throws a long message',
      'function decodeUplink() { throw new Error("\\u{1F321}".repeat(3000)); }',
      /^runtime_error: .{1,500}$/su,
    ],
  ])('are stored with the reason when the decoder %s', async (_name, script, reason) => {
    const { clientDeviceId, sensorId } = await createSendingDevice(script);
    fixture.log.lines.splice(0);
    for (let times = 0; times < 5; times += 1)
      expect(await pipeline.handle(uplink(clientDeviceId))).toEqual({ outcome: 'stored' });
    const { decodeError, ...rest } = await keys(clientDeviceId);
    expect(decodeError).toMatch(reason);
    expect((decodeError as string).length).toBeLessThanOrEqual(500);
    expect((decodeError as string).isWellFormed()).toBe(true);
    expect(rest).toEqual({ bytes: '00d7', fPort: 2 });
    expect(readings(sensorId)).toEqual([]);
    const logged = fixture.log.of('telemetry.decode_failed');
    expect(logged.map(({ failures }) => failures)).toEqual([1, 2, 4]);
    expect(logged[0]).toMatchObject({ client_device_id: clientDeviceId, code: (decodeError as string).split(':')[0] });
  });

  it('are decoded even when the decoder returns warnings', async () => {
    const { clientDeviceId } = await createSendingDevice(
      'function decodeUplink() { return { data: { ok: true }, warnings: ["low battery"] }; }',
    );
    await pipeline.handle(uplink(clientDeviceId));
    expect(await keys(clientDeviceId)).toEqual({ bytes: '00d7', fPort: 2, 'object.ok': true });
  });

  it('are decoded with a decoder that another process imported, from the next uplink on', async () => {
    const { clientDeviceId, model } = await createSendingDevice(
      'function decodeUplink() { return { data: { version: 1 } }; }',
    );
    await pipeline.handle(uplink(clientDeviceId));
    expect(await keys(clientDeviceId)).toMatchObject({ 'object.version': 1 });
    const other = await fixture.test.open();
    try {
      await importDecoder(
        other,
        fixture.clock,
        'function Decode(fPort, bytes) { return { version: bytes.length }; }',
        model,
      );
    } finally {
      await other.close();
    }
    await pipeline.handle(uplink(clientDeviceId));
    expect(await keys(clientDeviceId)).toMatchObject({ 'object.version': 2 });
  });

  it('are stored once when they are repeated', async () => {
    const { clientDeviceId, sensorId } = await createSendingDevice(TEMPERATURE);
    const message = uplink(clientDeviceId);
    const outcomes = await Promise.all(
      [message, message, message].map(async (one) => (await pipeline.handle(one)).outcome),
    );
    expect(outcomes.toSorted()).toEqual(['duplicate', 'duplicate', 'stored']);
    expect(readings(sensorId)).toEqual([21.5]);
  });

  const overrun = result({ error: { code: 'timeout', message: 'too slow', lineNumber: undefined } });
  const good = result({ data: { temperature: 1 } });

  it('are retried while the sandbox is full and after ten seconds stored with that reason', async () => {
    const { clientDeviceId } = await createSendingDevice(TEMPERATURE);
    const answers: (DecodeResult | DomainError)[] = [
      new DomainError('exhausted', 'codec_queue_full', 'full'),
      result({ isServerFault: true, error: overrun.error }),
      good,
    ];
    const requests: DecodeRequest[] = [];
    const decode = async (request: DecodeRequest): Promise<DecodeResult> => {
      requests.push(request);
      const answer = answers.shift() ?? new DomainError('unavailable', 'codec_unavailable', 'no threads');
      if (!(answer instanceof DomainError)) return answer;
      fixture.clock.advance(5000);
      throw answer;
    };
    const trying = pipelineWith({ decode });
    await trying.handle(uplink(clientDeviceId));
    expect([(await keys(clientDeviceId))['object.temperature'], requests.length]).toEqual([1, 3]);
    expect(await trying.handle(uplink(clientDeviceId))).toEqual({ outcome: 'stored' });
    expect([(await keys(clientDeviceId))['decodeError'], requests.length]).toEqual([
      'codec_unavailable: no threads',
      5,
    ]);
  });

  it('count as an overrun when the machine cannot run the decoder at the third attempt, because the decoder may hang where nothing can stop it', async () => {
    const { clientDeviceId } = await createSendingDevice(TEMPERATURE);
    let runs = 0;
    const starving = pipelineWith({
      decode: async () => {
        runs += 1;
        return await Promise.resolve(result({ isServerFault: true, error: overrun.error }));
      },
    });
    for (let times = 0; times < 4; times += 1) await starving.handle(uplink(clientDeviceId));
    expect([runs, (await keys(clientDeviceId))['decodeError']]).toEqual([9, expect.stringMatching(/^decoder_paused/)]);
  });

  it('are neither stored nor acknowledged when the server stops, so that they are sent again', async () => {
    const { clientDeviceId } = await createSendingDevice(TEMPERATURE);
    const stopping = pipelineWith({
      decode: async () =>
        await Promise.reject(new DomainError('unavailable', 'shutting_down', 'the server is shutting down')),
    });
    const message = uplink(clientDeviceId);
    await expect(stopping.handle(message)).rejects.toMatchObject({ reason: 'shutting_down' });
    expect(await keys(clientDeviceId)).toEqual({});
    expect(await pipeline.handle(message)).toEqual({ outcome: 'stored' });
  });

  it('are stored undecoded for a minute after the decoder overran three times in a row, for that device, which runs under a separate owner', async () => {
    const { clientDeviceId, model } = await createSendingDevice(TEMPERATURE);
    const profileId = await importDecoder(fixture.test.database, fixture.clock, TEMPERATURE, model);
    const others = await Promise.all([1, 2, 3].map(async () => newId()));
    for (const other of others)
      await fixture.api.create({
        name: 'Other',
        physicalDevice: { clientDeviceId: other, connectionId: fixture.connections[0], configuration: { profileId } },
      });
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
    expect(await send(clientDeviceId)).toMatch(/^decoder_paused: .* it runs again in 60 s$/);
    expect(runs).toHaveLength(3);
    expect(owners.size).toBe(2);
    for (const other of others) expect(await send(other)).toBeUndefined();
    fixture.clock.advance(60_001);
    expect(await send(clientDeviceId)).toBe('timeout: too slow');
    expect(await send(clientDeviceId)).toMatch(/^decoder_paused/);
    fixture.clock.advance(60_001);
    slow.clear();
    await send(clientDeviceId);
    expect(runs.filter((run) => run === clientDeviceId)).toHaveLength(5);
    for (const other of others) slow.add(other);
    for (const other of others) expect(await send(other)).toBe('timeout: too slow');
    expect(await send(clientDeviceId)).toMatch(/^decoder_paused/);
  });
});
