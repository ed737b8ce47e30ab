import type { CommandDefinition, ParamSchema } from '../../src/commands';
import { checkDefinition } from '../../src/commands/definitionRules';
import type { JsonValue } from '../../src/kernel/jsonValue';
import { definition, param } from './definition';

const ENCODER = 'function encodeDownlink(input) { return { bytes: [1] }; }';

function listViolations(overrides: Partial<CommandDefinition>): string[] {
  return checkDefinition(definition(overrides)).map((violation) => `${violation.field} ${violation.description}`);
}

function faults(entry: Partial<ParamSchema>): string[] {
  return listViolations({ paramsSchema: { position: param(entry) } });
}

describe('a definition', () => {
  it('reports the faults of one template even when another has a hostile number of them', () => {
    const faulty = listViolations({
      directPayload: `"${'{{'.repeat(30_000)}"`,
      expectedSensorStates: [{ sensorId: 's', valueTemplate: '{{x}}' }],
    });
    expect(faulty).toHaveLength(51);
    expect(faulty.at(-1)).toContain('expectedSensorStates[0]');
  });

  it.each<[string, Partial<CommandDefinition>]>([
    ['a direct command', {}],
    ['without parameters', { paramsSchema: {}, directPayload: '{"on": true}' }],
    [
      'an encoded command',
      {
        mode: 'encoded',
        directPayload: undefined,
        customEncoder: ENCODER,
        encodedParamsTemplate: { p: '{{params.position}}' },
      },
    ],
    [
      'an encoder that receives the parameters unchanged',
      { mode: 'encoded', directPayload: undefined, customEncoder: ENCODER },
    ],
    [
      'an encoder of a profile',
      { mode: 'encoded', directPayload: undefined, encoderProfileId: 'acme/valve/1.0/EU868' },
    ],
    [
      'an encoder that came from a profile',
      { mode: 'encoded', directPayload: undefined, customEncoder: ENCODER, encoderProfileId: 'acme/valve/1.0/EU868' },
    ],
    ['a query command', { verificationStrategy: 'query_after_ack', queryCommandId: 'q' }],
    ['an unused query command', { queryCommandId: 'q' }],
    [
      'expected states',
      {
        expectedSensorStates: [
          { sensorId: 's', valueTemplate: '{{params.position}}' },
          { sensorId: 't', valueTemplate: 'on' },
        ],
      },
    ],
    [
      'every fact',
      {
        directPayload:
          '[{{device.id}}, {{device.name}}, {{device.clientDeviceId}}, {{execution.id}}, {{execution.triggerId}}, {{execution.enqueuedAt}}, {{params}}, {{device}}]',
      },
    ],
    ['steps into a parameter of any type', { paramsSchema: { x: param() }, directPayload: '{{params.x.list[3].y}}' }],
    ['a topic of the device', { mqttTopic: 'site/{clientDeviceId}/set' }],
  ])('may be %s', (_name, overrides) => {
    expect(listViolations(overrides)).toEqual([]);
  });

  it.each<[string, Partial<CommandDefinition>, string]>([
    ['direct without payload', { directPayload: undefined }, 'command.directPayload is required in mode direct'],
    ['direct with an encoder', { customEncoder: ENCODER }, 'command.customEncoder is not allowed in mode direct'],
    [
      'direct with a template for the encoder',
      { encodedParamsTemplate: {} },
      'command.encodedParamsTemplate is not allowed in mode direct',
    ],
    [
      'direct with the encoder of a profile',
      { encoderProfileId: 'acme/valve/1.0/EU868' },
      'command.encoderProfileId is not allowed in mode direct',
    ],
    [
      'encoded without encoder',
      { mode: 'encoded', directPayload: undefined },
      'command.customEncoder is required in mode encoded; set it or encoderProfileId, for example function encodeDownlink(input) {',
    ],
    [
      'encoded with a payload',
      { mode: 'encoded', customEncoder: ENCODER },
      'command.directPayload is not allowed in mode encoded',
    ],
    [
      'query_after_ack without query',
      { verificationStrategy: 'query_after_ack' },
      'command.queryCommandId is required by query_after_ack',
    ],
    [
      'a sensor twice',
      {
        expectedSensorStates: [
          { sensorId: 's', valueTemplate: '1' },
          { sensorId: 's', valueTemplate: '2' },
        ],
      },
      'command.expectedSensorStates[1].sensorId is a duplicate',
    ],
    [
      'a wrong value template',
      { expectedSensorStates: [{ sensorId: 's', valueTemplate: '{{x}}' }] },
      'command.expectedSensorStates[0].valueTemplate {{x}} at character 1 starts with an unknown name',
    ],
    ['a payload that is not JSON', { directPayload: '{"a" 1}' }, 'command.directPayload "1" found at character 6'],
    [
      'an undeclared parameter',
      { directPayload: '[{{params.speed}}]' },
      'command.directPayload {{params.speed}} at character 2 is not declared in paramsSchema',
    ],
    ['an inherited parameter', { directPayload: '[{{params.constructor}}]' }, 'is not declared in paramsSchema'],
    ['an index into the parameters', { directPayload: '[{{params[0]}}]' }, 'is not declared in paramsSchema'],
    [
      'a step into a number',
      { directPayload: '[{{params.position.x}}]' },
      'accesses a field of a parameter of type integer',
    ],
    [
      'an unknown fact',
      { directPayload: '[{{device.key}}]' },
      'is unknown; use one of device.id, device.name, device.clientDeviceId',
    ],
    [
      'an undeclared parameter of the encoder',
      {
        mode: 'encoded',
        directPayload: undefined,
        customEncoder: ENCODER,
        encodedParamsTemplate: { a: ['{{params.b}}'] },
      },
      'command.encodedParamsTemplate {{params.b}} in a[0] is not declared',
    ],
    ['a wildcard in the topic', { mqttTopic: 'site/+/set' }, 'command.mqttTopic must not contain wildcards'],
    [
      'a control character in the topic',
      { mqttTopic: 'site/{clientDeviceId}/\u0001' },
      'command.mqttTopic must not contain wildcards',
    ],
    [
      'a placeholder in the topic',
      { mqttTopic: 'site/{{params.position}}' },
      'command.mqttTopic must not contain wildcards',
    ],
  ])('may not be %s', (_name, overrides, expected) => {
    expect(listViolations(overrides)).toEqual([expect.stringContaining(expected) as string]);
  });

  it('is rejected with all faults at once', () => {
    const all = listViolations({
      directPayload: '[{{params.a}}, {{params.b}}]',
      customEncoder: ENCODER,
      mqttTopic: '#',
      verificationStrategy: 'query_after_ack',
      paramsSchema: { 'x y': param({ min: 1 }) },
    });
    expect(all).toHaveLength(7);
  });

  it('is not checked against its mode while the mode is missing', () => {
    expect(checkDefinition({ ...definition(), mode: undefined, verificationStrategy: undefined })).toEqual([]);
  });

  it('is rejected with few faults when it is hostile', () => {
    const payload = `[${Array.from({ length: 4000 }, (_, at) => `{{params.x${at}}}`).join()}]`;
    expect(listViolations({ directPayload: payload })).toHaveLength(100);
  });
});

describe('a parameter', () => {
  it.each<[string, Partial<ParamSchema>]>([
    ['of any type', {}],
    ['with a default of null', { default: null }],
    ['an integer with bounds and default', { type: 'integer', min: -1, max: 1, default: 0 }],
    ['a number with equal bounds', { type: 'number', min: 0.5, max: 0.5, default: 0.5 }],
    ['a boolean', { type: 'boolean', default: false }],
    ['an enum of strings', { type: 'string', enum: ['on', 'off'], default: 'on' }],
    ['a string with a pattern', { type: 'string', pattern: '^[0-9a-f]{2}$', default: 'ff', enum: ['00', 'ff'] }],
    ['an enum of any type', { enum: [1, '1', null, { a: [1] }], default: { a: [1] } }],
  ])('may be %s', (_name, entry) => {
    expect(faults(entry)).toEqual([]);
  });

  it.each<[string, Partial<ParamSchema>, string]>([
    ['a string with min', { type: 'string', min: 1 }, 'position.min is only allowed for numbers'],
    ['a boolean with max', { type: 'boolean', max: 1 }, 'position.max is only allowed for numbers'],
    ['bounds without a type', { min: 1 }, 'position.min is only allowed for numbers'],
    ['reversed bounds', { type: 'number', min: 2, max: 1 }, 'position.min must not be greater than max (1)'],
    ['a number with a pattern', { type: 'number', pattern: '.' }, 'position.pattern is only allowed for strings'],
    [
      'a pattern that does not compile',
      { type: 'string', pattern: '(' },
      'position.pattern is not a valid RE2 regular expression',
    ],
    ['look-ahead', { type: 'string', pattern: '(?=a)' }, 'position.pattern is not a valid RE2 regular expression'],
    [
      'a pattern that repeats too much',
      { type: 'string', pattern: '(((a?){10}){10}){10}' },
      'position.pattern has too many repetitions',
    ],
    [
      'a pattern that looks at every character in 1800 ways',
      { type: 'string', pattern: '(?i)(?:x?){900}y$' },
      'position.pattern has too many repetitions: use smaller counts in {} so that it has at most 585 steps',
    ],
    [
      'a pattern of many large counts',
      { type: 'string', pattern: 'x{1000}'.repeat(140) },
      'position.pattern has too many repetitions',
    ],
    [
      'a pattern with too many values to match',
      { type: 'string', pattern: '(?i)(?:x?){200}$', enum: Array.from({ length: 100 }, (_, at) => `value ${at}`) },
      'position.pattern is too expensive together',
    ],
    [
      'a pattern with an excessive repetition',
      { type: 'string', pattern: '((a{100}){100}){100}' },
      'position.pattern has too many repetitions',
    ],
    ['an integer default with a fraction', { type: 'integer', default: 0.5 }, 'position.default must be an integer'],
    ['an integer default beyond 2^53', { type: 'integer', default: 2 ** 53 }, 'position.default must be an integer'],
    ['a default of the wrong type', { type: 'boolean', default: 'true' }, 'position.default must be true or false'],
    ['a default of null for a string', { type: 'string', default: null }, 'position.default must be a string'],
    ['a default below min', { type: 'number', min: 1, default: 0 }, 'position.default is less than 1'],
    ['a default above max', { type: 'number', max: 1, default: 2 }, 'position.default is greater than 1'],
    [
      'a default that is not allowed',
      { enum: [1, 2], default: 3 },
      'position.default is not one of the allowed values: use 1, 2',
    ],
    [
      'a default that does not match',
      { type: 'string', pattern: '^a', default: 'b' },
      'position.default does not match the pattern ^a',
    ],
    ['an allowed value of the wrong type', { type: 'integer', enum: [1, 'x'] }, 'position.enum[1] must be an integer'],
    ['an allowed value above max', { type: 'integer', max: 5, enum: [6] }, 'position.enum[0] is greater than 5'],
    [
      'an allowed value twice',
      {
        enum: [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
      },
      'position.enum[1] is a duplicate',
    ],
    [
      'an invalid allowed value',
      { enum: [undefined as unknown as JsonValue] },
      'position.enum[0] contains something that is not a JSON value',
    ],
    [
      'a default that is too deep',
      { default: JSON.parse(`${'['.repeat(40)}${']'.repeat(40)}`) as JsonValue },
      'position.default is nested deeper than 32 levels',
    ],
  ])('may not be %s', (_name, entry, expected) => {
    expect(faults(entry)).toEqual([expect.stringContaining(`command.paramsSchema.${expected}`) as string]);
  });

  it.each(['', '1a', 'a b', 'a.b', '__proto__', 'ä', 'x'.repeat(65)])('may not have the name %p', (name) => {
    expect(listViolations({ paramsSchema: Object.fromEntries([[name, param()]]), directPayload: '1' })).toEqual([
      expect.stringContaining('is not a valid parameter name') as string,
    ]);
  });

  it('may have a pattern in a command with twenty such parameters', () => {
    const patterns = [
      '^[A-Z]{2}[0-9]{1,6}$',
      '^[0-9]{1,3}([.][0-9]{1,3}){3}$',
      '^(?i:on|off|auto)$',
      '^[[:alpha:]]{1,8}$',
    ];
    const all = Array.from({ length: 20 }, (_, at) => [
      `p${at}`,
      param({ type: 'string', pattern: patterns[at % patterns.length] }),
    ]);
    expect(
      listViolations({
        paramsSchema: Object.fromEntries(all) as CommandDefinition['paramsSchema'],
        directPayload: '1',
      }),
    ).toEqual([]);
  });

  it('may not have a pattern that costs too much together with those of the others', () => {
    const all = Array.from({ length: 4 }, (_, at) => [
      `p${at}`,
      param({ type: 'string', pattern: '(?i)(?:x?){100}y$', default: 'none' }),
    ]);
    const found = listViolations({
      paramsSchema: Object.fromEntries(all) as CommandDefinition['paramsSchema'],
      directPayload: '1',
    });
    expect(found).toEqual([
      'command.paramsSchema.p0.default does not match the pattern (?i)(?:x?){100}y$',
      'command.paramsSchema.p1.default does not match the pattern (?i)(?:x?){100}y$',
      expect.stringMatching(/p2.pattern is too expensive together .* 585 steps.*; use smaller counts/) as string,
      'command.paramsSchema.p3.pattern cannot be checked, because the patterns before it are too expensive; fix those first',
    ]);
  });

  it('may not exceed 64 KiB together with all others', () => {
    expect(listViolations({ paramsSchema: { position: param({ default: 'x'.repeat(70_000) }) } })).toEqual([
      expect.stringContaining('command.paramsSchema is larger than 65536 bytes') as string,
    ]);
  });
});
