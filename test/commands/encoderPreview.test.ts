import type { EncodeResult } from '../../src/codec';
import { ConnectionRepository } from '../../src/connections';
import { type EncoderPreview, PreviewEncoderRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { newId } from '../../src/kernel/ids';
import { ProfileImports } from '../../src/profiles';
import { call, callFails } from '../support/edge';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { sqliteOnly } from '../support/engines';
import { createCodec, getModel, getProfile, getVendor } from '../support/vendors';
import { AS_ONE, AS_TWO, startCommandFixture, type CommandFixture } from './commandFixture';

/** One profile `halmwind/<codec>/1.0/EU868` for each form of an encoder, and one without an encoder. */
const CODECS = [
  createCodec('sluice', {
    encoder: 'function encodeDownlink(input) { return { bytes: [1, input.data.a], fPort: 7 }; }',
  }),
  createCodec('older', {
    encoder: 'function Encode(fPort, obj, variables) { return [2, obj.a, fPort, (variables.mode || "").length]; }',
  }),
  createCodec('oldest', { encoder: 'function Encoder(obj, fPort) { return [3, obj.a, fPort]; }' }),
  createCodec('gauge', { decoder: 'function decodeUplink() { return { data: {} }; }' }),
];
const named = (name: string, more: object = {}): object => ({
  customEncoder: '',
  encoderProfileId: profile(name),
  ...more,
});
const profile = (name: string): string => `halmwind/${name}/1.0/EU868`;

describe.each(sqliteOnly())('encoder previews on $name', (engine) => {
  let encoder: TestEncoder;
  /** The result that replaces that of the sandbox; undefined: the sandbox runs. */
  let instead: EncodeResult | undefined;
  let fixture: CommandFixture;
  let id: string;
  beforeAll(async () => {
    encoder = startEncoder();
    fixture = await startCommandFixture(engine, {
      encode: async (...run) => instead ?? (await encoder.encode(...run)),
    });
    ({ id } = await fixture.device());
    const models = CODECS.map(({ name }) => getModel({ id: name, name, profiles: [getProfile({ codec: name })] }));
    await new ProfileImports({ database: fixture.db.database, clock: fixture.clock }).store(
      'lorawan-devices',
      getVendor({ id: 'halmwind', name: 'Halmwind', models, codecs: CODECS }),
    );
  });
  afterEach(() => (instead = undefined));
  afterAll(async () => {
    await fixture.stop();
    await encoder.stop();
  });
  const request = (overrides: object): PreviewEncoderRequest =>
    PreviewEncoderRequest.fromPartial({
      id,
      customEncoder: 'function encodeDownlink(input) { return { bytes: [input.data.a] }; }',
      params: { a: 1 },
      ...overrides,
    });
  const preview = async (overrides: object = {}): Promise<EncoderPreview> =>
    await call(fixture.client.previewEncoder.bind(fixture.client), request(overrides), AS_ONE);
  const previewFails = async (overrides: object, as = AS_ONE) =>
    await callFails(fixture.client.previewEncoder.bind(fixture.client), request(overrides), as);

  it('return the bytes in three forms, with the logs, the warnings and the duration', async () => {
    const customEncoder =
      'function encodeDownlink(input) { console.log("port", input.fPort); return { bytes: [0, 171, 255], warnings: ["careful"] }; }';
    const result = await preview({ customEncoder, fPort: 12 });
    expect(result).toMatchObject({
      output: { bytes: [0, 171, 255], bytesHex: '00abff', bytesBase64: 'AKv/', fPort: 12 },
      logs: ['port 12'],
      warnings: ['careful'],
      error: undefined,
    });
    expect(result.executionTimeMs).toBeGreaterThan(0);
  });

  it('pass the parameters to the encoder unchanged, or the rendered template', async () => {
    encoder.runs.splice(0);
    await preview({ params: { a: 1, b: { c: [true, null, 'x'] } } });
    await preview({ params: undefined });
    await preview({ params: { a: 3 }, encodedParamsTemplate: {} });
    await preview({
      params: { a: 3 },
      encodedParamsTemplate: {
        a: '{{params.a}}',
        of: '{{device.id}} {{device.name}}',
        by: '{{execution.id}} {{execution.triggerId}}',
        at: '{{execution.enqueuedAt}}',
      },
    });
    const unknownId = '00000000-0000-7000-8000-000000000000';
    const rendered = {
      a: 3,
      of: `${id} Device`,
      by: `${unknownId} ${unknownId}`,
      at: new Date(fixture.clock.now()).toISOString(),
    };
    expect(encoder.runs.map((run) => run.data)).toEqual([{ a: 1, b: { c: [true, null, 'x'] } }, {}, {}, rendered]);
  });

  it.each([
    [
      'a template with a path that has no value',
      { encodedParamsTemplate: { x: '{{params.none}}' } },
      'template_error',
      /params\.none has no value/,
      undefined,
    ],
    [
      'an invalid template',
      { encodedParamsTemplate: { x: '{{nothing.at}}' } },
      'template_error',
      /encodedParamsTemplate .*unknown name/,
      undefined,
    ],
    [
      'a script that throws',
      { customEncoder: '\n\nfunction encodeDownlink() {\n  return missing; }' },
      'runtime_error',
      /missing/,
      4,
    ],
    ['an invalid script', { customEncoder: 'function (' }, 'syntax_error', /./, 1],
    ['a script without an encoder', { customEncoder: 'var x;' }, 'no_encoder', /encodeDownlink/, undefined],
    ['a value that is not a byte', { params: { a: 300 } }, 'bad_output', /300/, undefined],
    [
      'an invalid port',
      { customEncoder: 'function encodeDownlink() { return { bytes: [], fPort: 0 }; }' },
      'bad_output',
      /fPort/,
      undefined,
    ],
  ])('succeed and report %s', async (_name, overrides, code, message, lineNumber) => {
    expect(await preview(overrides)).toMatchObject({
      output: undefined,
      error: { code, message: expect.stringMatching(message), lineNumber },
    });
  });

  it('report an encoder that got no CPU time like one that exceeded its timeout', async () => {
    const message = 'the machine was too busy';
    instead = {
      output: undefined,
      warnings: [],
      logs: [],
      executionTimeMs: 1,
      error: { code: 'timeout', message, lineNumber: undefined },
      isServerFault: true,
    };
    expect(await preview()).toMatchObject({ output: undefined, error: { code: 'timeout', message } });
  });

  it('report at most twenty problems of a template, and count the others', async () => {
    for (const path of ['params.q', 'q']) {
      const { error } = await preview({
        encodedParamsTemplate: { list: Array.from({ length: 3000 }, (_, at) => `{{${path}${at}}}`) },
      });
      expect(error).toMatchObject({
        code: 'template_error',
        message: expect.stringMatching(/q19\D.* \(and 2980 more\)$/s),
      });
      expect(error?.message.length).toBeLessThan(5000);
    }
  });

  it.each([
    ['encodeDownlink', 'sluice', [1, 1], 7],
    ['Encode', 'older', [2, 1, 12, 0], 12],
    ['Encoder', 'oldest', [3, 1, 12], 12],
  ])('run the encoder of a profile in the form %s', async (_name, codec, bytes, fPort) => {
    expect(await preview({ customEncoder: '', encoderProfileId: profile(codec), fPort: 12 })).toMatchObject({
      output: { bytes, fPort },
      error: undefined,
    });
  });

  it('pass the variables of the registered device to the encoder', async () => {
    const connectionId = newId();
    const connection = {
      id: connectionId,
      organizationId: 'org-1',
      connectorId: 'gateway',
      name: 'Gateway',
      description: '',
      enabled: true,
      configuration: {},
      encryptedSecrets: {},
      policy: {},
      createdAt: 0,
      updatedAt: 0,
      revision: 1,
    };
    await new ConnectionRepository(fixture.db.database.db).create('org-1', connection);
    const physicalDevice = {
      connectionId,
      clientDeviceId: 'valve-1',
      configuration: { variables: { mode: 'eco' }, other: 'x' },
    };
    const device = await fixture.devices.create('org-1', { name: 'In the field', physicalDevice });
    expect(
      await preview({ id: device.id, customEncoder: '', encoderProfileId: profile('older'), fPort: 12 }),
    ).toMatchObject({ output: { bytes: [2, 1, 12, 3] } });
    encoder.runs.splice(0);
    await preview({
      id: device.id,
      customEncoder: 'function encodeDownlink(input) { return { bytes: [input.variables.mode.length] }; }',
    });
    await preview();
    expect(encoder.runs.map((run) => run.variables)).toEqual([{ mode: 'eco' }, {}]);
  });

  it('prefer the encoder in the request over the profile', async () => {
    expect(await preview({ encoderProfileId: profile('none') })).toMatchObject({ output: { bytes: [1] } });
  });

  it('report an unknown profile, or one without an encoder, together with all other faults', async () => {
    expect((await previewFails(named('none'))).violations).toEqual({
      encoderProfileId: expect.stringMatching(/^profile not found/),
    });
    expect((await previewFails(named('gauge'))).violations).toEqual({
      encoderProfileId: expect.stringMatching(/^is a profile without a downlink encoder/),
    });
    expect((await previewFails(named('none', { fPort: 224 }))).fields.toSorted()).toEqual([
      'encoderProfileId',
      'fPort',
    ]);
    expect((await previewFails({ customEncoder: '', encoderProfileId: 'halm\0wind' })).violations).toEqual({
      encoderProfileId: expect.stringContaining('NUL'),
    });
    expect((await previewFails({ customEncoder: '', encoderProfileId: '' })).fields).toEqual(['encoderProfileId']);
    expect((await previewFails(named('none', { id: newId(), fPort: 224 }))).fields).toEqual(['fPort']);
    expect((await previewFails(named('none', { id: newId() }))).reason).toBe('device_not_found');
    expect((await previewFails(named('none'), AS_TWO)).reason).toBe('device_not_found');
  });

  it('require a device, an encoder and a valid request', async () => {
    expect(await previewFails({ id: '0190a0a0-0000-7000-8000-000000000000' })).toMatchObject({
      code: 5,
      reason: 'device_not_found',
    });
    expect(await previewFails({}, AS_TWO)).toMatchObject({ code: 5, reason: 'device_not_found' });
    expect((await previewFails({ customEncoder: '' })).violations).toEqual({
      customEncoder: 'is required unless encoderProfileId is set',
    });
    expect(await previewFails({ customEncoder: '', fPort: 224 })).toMatchObject({
      code: 3,
      reason: 'validation_failed',
      fields: expect.arrayContaining(['customEncoder', 'fPort']),
    });
    expect(await previewFails({ customEncoder: `//${'x'.repeat(262_144)}` })).toMatchObject({
      code: 3,
      fields: ['customEncoder'],
    });
  });

  const counts = async (): Promise<unknown> =>
    await Promise.all(
      ['commands', 'executions', 'execution_events'].map(
        async (table) => await fixture.db.database.db.knex(table).count('* as n'),
      ),
    );
  it('store nothing', async () => {
    const before = await counts();
    await preview();
    expect(await counts()).toEqual(before);
  });
});
