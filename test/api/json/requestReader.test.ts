import type { Violation } from '../../../src/kernel/errors';
import { getApiDescriptors } from '../../../src/api/descriptors/descriptors';
import { RequestReaders, type RequestParts } from '../../../src/api/json/requestReader';

const descriptors = getApiDescriptors();
const readers = new RequestReaders(descriptors);

interface Outcome {
  readonly message: Readonly<Record<string, unknown>>;
  readonly wrong: readonly string[];
}

/** Reads a message of a type; violations are returned as `path: description`. */
function read(type: string, parts: Partial<Omit<RequestParts, 'query'>> & { readonly query?: string }): Outcome {
  const request = descriptors.registry.getMessage(type);
  if (!request) throw new Error(`there is no ${type}`);
  const routes = [...descriptors.methods.values()].find((descriptor) => descriptor.request === request)?.routes ?? [];
  const out: Violation[] = [];
  const { query = '', ...others } = parts;
  const message = readers
    .createReader({ request, routes })
    .read(
      { path: {}, body: undefined, bodyRule: query === '' ? '*' : '', ...others, query: new URLSearchParams(query) },
      out,
    );
  return { message, wrong: out.map(({ field, description }) => `${field}: ${description}`) };
}

const UPDATE = 'digitaldevice.v2.UpdateDigitalDeviceRequest';
const MAPPINGS = 'digitaldevice.v2.SetSensorMappingsRequest';
const COMMAND = 'actuator_command.v2.CommandDefinition';
const AGGREGATE = 'sensorquery.v1.QueryAggregateRequest';
const UPLINK = 'gateway.v1.Uplink';
// Uses the maximum of the field rules, or otherwise of the field type.
const PORT = 'a whole number from 1 to 223';
const SIZE = 'a whole number from 0 to 2147483647';
const INT64 = 'a whole number from -9007199254740991 to 9007199254740991';

describe('a body is read with', () => {
  it.each<[string, string, object, object]>([
    ['a text', COMMAND, { name: 'x' }, { name: 'x' }],
    ['an integer', COMMAND, { fPort: -2_147_483_648 }, { fPort: -2_147_483_648 }],
    ['an integer with an exponent', COMMAND, JSON.parse('{"fPort":1E2}') as object, { fPort: 100 }],
    ['minus zero as zero', COMMAND, JSON.parse('{"fPort":-0}') as object, { fPort: 0 }],
    [
      'an integer of 64 bits',
      'sensorquery.v1.Reading',
      { integer: 9_007_199_254_740_991 },
      { value: { $case: 'integer', value: 9_007_199_254_740_991 } },
    ],
    ['a double', 'sensorquery.v1.Reading', { number: 1.5 }, { value: { $case: 'number', value: 1.5 } }],
    ['a boolean', COMMAND, { confirmed: false }, { confirmed: false }],
    ['a word of an enum', COMMAND, { mode: 'encoded' }, { mode: 2 }],
    ['bytes in base64', UPLINK, { bytes: '+/8=' }, { payload: { $case: 'bytes', value: Buffer.from('fbff', 'hex') } }],
    [
      'bytes in base64 without padding',
      UPLINK,
      { bytes: '+/8' },
      { payload: { $case: 'bytes', value: Buffer.from('fbff', 'hex') } },
    ],
    [
      'bytes in base64 for URLs',
      UPLINK,
      { bytes: '-_8' },
      { payload: { $case: 'bytes', value: Buffer.from('fbff', 'hex') } },
    ],
    ['empty bytes', UPLINK, { bytes: '' }, { payload: { $case: 'bytes', value: Buffer.alloc(0) } }],
    ['a time', AGGREGATE, { from: '2026-01-31T08:00:00Z' }, { from: { seconds: 1_769_846_400, nanos: 0 } }],
    [
      'a time with an offset',
      AGGREGATE,
      { from: '2026-01-31T09:00:00.123456789+01:00' },
      { from: { seconds: 1_769_846_400, nanos: 123_456_789 } },
    ],
    [
      'a time before 1970',
      AGGREGATE,
      { from: '1969-12-31t23:59:59.5z' },
      { from: { seconds: -1, nanos: 500_000_000 } },
    ],
    [
      'the earliest time',
      AGGREGATE,
      { from: '0001-01-01T00:00:00Z' },
      { from: { seconds: -62_135_596_800, nanos: 0 } },
    ],
    [
      'the latest time',
      AGGREGATE,
      { from: '9999-12-31T23:59:59.999999999Z' },
      { from: { seconds: 253_402_300_799, nanos: 999_999_999 } },
    ],
    [
      '29 February of a leap year',
      AGGREGATE,
      { from: '2024-02-29T23:59:59-23:59' },
      { from: { seconds: 1_709_337_539, nanos: 0 } },
    ],
    [
      'a list',
      AGGREGATE,
      { sensorIds: ['a', 'b'], functions: ['min', 'time_weighted_average'] },
      { sensorIds: ['a', 'b'], functions: [1, 8] },
    ],
    ['a message', AGGREGATE, { bucket: { count: 5, unit: 'minute' } }, { bucket: { count: 5, unit: 2 } }],
    [
      'a map',
      COMMAND,
      { paramsSchema: { constructor: { type: 'number', min: 1 } } },
      { paramsSchema: { constructor: expect.objectContaining({ min: 1, max: undefined }) } },
    ],
    [
      'free JSON',
      COMMAND,
      { encodedParamsTemplate: { a: [null, { b: 1 }] } },
      { encodedParamsTemplate: { a: [null, { b: 1 }] } },
    ],
    ['null as free JSON', 'sensorquery.v1.Reading', { json: null }, { value: { $case: 'json', value: null } }],
    [
      'null for an absent field',
      COMMAND,
      { name: null, mode: null, paramsSchema: null, expectedSensorStates: null, fPort: null },
      { name: '', mode: 0, paramsSchema: {}, expectedSensorStates: [], fPort: undefined },
    ],
    [
      'null next to the other case of a oneof',
      'sensorquery.v1.Reading',
      { text: null, number: 1 },
      { value: { $case: 'number', value: 1 } },
    ],
  ])('%s', (_, type, body, message) => {
    expect(read(type, { body })).toEqual({ wrong: [], message: expect.objectContaining(message) });
  });

  it.each<[string, object, object]>([
    [
      'null',
      { physicalDevice: null, dataSendingInterval: null, images: null },
      {
        unbindPhysicalDevice: true,
        clearDataSendingInterval: true,
        clearImages: true,
        physicalDevice: undefined,
        images: [],
      },
    ],
    ['an empty list', { images: [] }, { unbindPhysicalDevice: false, clearImages: true, images: [] }],
    [
      'the name of the flag',
      { unbindPhysicalDevice: true, clearImages: false },
      { unbindPhysicalDevice: true, clearImages: false },
    ],
    ['both', { unbindPhysicalDevice: true, physicalDevice: null }, { unbindPhysicalDevice: true }],
  ])('a flag is set by %s', (_, body, message) => {
    expect(read(UPDATE, { body })).toEqual({ wrong: [], message: expect.objectContaining(message) });
  });
});

describe('a body is rejected for', () => {
  it.each<[string, string, unknown, readonly string[]]>([
    ['a number as a string', COMMAND, { name: 5 }, ['name: must be a string, not 5']],
    ['a string as a number', COMMAND, { fPort: '5' }, [`fPort: must be ${PORT}, not a string`]],
    ['a fraction', COMMAND, { fPort: 1.5 }, [`fPort: must be ${PORT}, not 1.5`]],
    ['an integer over 32 bits', COMMAND, { fPort: 2_147_483_648 }, [`fPort: must be ${PORT}, not 2147483648`]],
    [
      'an integer over 53 bits',
      'sensorquery.v1.Reading',
      { integer: 9_007_199_254_740_992 },
      [`integer: must be ${INT64}, not 9007199254740992`],
    ],
    ['a boolean as a number', COMMAND, { fPort: true }, [`fPort: must be ${PORT}, not true`]],
    ['a number as a boolean', COMMAND, { confirmed: 0 }, ['confirmed: must be true or false, not 0']],
    ['a string as a boolean', COMMAND, { confirmed: 'true' }, ['confirmed: must be true or false, not a string']],
    ['NaN as a string', 'sensorquery.v1.Reading', { number: 'NaN' }, ['number: must be a number, not a string']],
    ['a list as an object', AGGREGATE, { bucket: [] }, ['bucket: must be a JSON object, not an array']],
    ['an object as a list', AGGREGATE, { sensorIds: {} }, ['sensorIds: must be an array, not an object']],
    ['one item as a list', AGGREGATE, { sensorIds: 'a' }, ['sensorIds: must be an array, not a string']],
    ['a list as a map', COMMAND, { paramsSchema: [] }, ['paramsSchema: must be a JSON object, not an array']],
    [
      'a list as a free JSON object',
      COMMAND,
      { encodedParamsTemplate: [] },
      ['encodedParamsTemplate: must be a JSON object, not an array'],
    ],
    ['null in a list', AGGREGATE, { sensorIds: ['a', null] }, ['sensorIds[1]: must be a string, not null']],
    ['null in a map', COMMAND, { paramsSchema: { x: null } }, ['paramsSchema.x: must be a JSON object, not null']],
    ['the number of an enum', COMMAND, { mode: 1 }, ['mode: must be one of direct, encoded, not 1']],
    [
      'the full name of an enum value',
      COMMAND,
      { mode: 'COMMAND_MODE_DIRECT' },
      ['mode: must be one of direct, encoded, not "COMMAND_MODE_DIRECT"'],
    ],
    ['an enum in capitals', COMMAND, { mode: 'Direct' }, ['mode: must be one of direct, encoded, not "Direct"']],
    [
      'the unspecified enum value',
      COMMAND,
      { mode: 'unspecified' },
      ['mode: must be one of direct, encoded, not "unspecified"'],
    ],
    [
      'an unknown enum word that every object has as a property',
      COMMAND,
      { mode: 'constructor' },
      ['mode: must be one of direct, encoded, not "constructor"'],
    ],
    ['a possible API key', COMMAND, { mode: 'plr_abc' }, ['mode: must be one of direct, encoded, not a string']],
    ['truncated base64', UPLINK, { bytes: 'A' }, ['bytes: must be bytes in base64, not a string']],
    ['base64 with the wrong padding', UPLINK, { bytes: 'AAA==' }, ['bytes: must be bytes in base64, not a string']],
    ['base64 with white space', UPLINK, { bytes: 'AA AA' }, ['bytes: must be bytes in base64, not a string']],
    ['a snake_case name', AGGREGATE, { sensor_ids: [] }, ['sensor_ids: unknown field; did you mean sensorIds?']],
    [
      'an unknown name',
      'sensorquery.v1.BucketLength',
      { somethingElse: 'secret' },
      ['somethingElse: unknown field; known fields are count, unit'],
    ],
    [
      'a name that every object has',
      'sensorquery.v1.BucketLength',
      JSON.parse('{"constructor":1,"toString":2}'),
      [
        'constructor: unknown field; known fields are count, unit',
        'toString: unknown field; known fields are count, unit',
      ],
    ],
    [
      'a deeply nested unknown name',
      COMMAND,
      { expectedSensorStates: [{ sensorID: 'x' }] },
      ['expectedSensorStates[0].sensorID: unknown field; did you mean sensorId?'],
    ],
    [
      'two cases of a oneof',
      'sensorquery.v1.Reading',
      { number: 1, text: 'x' },
      ['text: cannot be combined with number: set only one of them'],
    ],
    [
      'a flag that contradicts its field',
      UPDATE,
      { images: [], clearImages: false },
      ['clearImages: is false, but images is null or empty, which means true: set only one of them'],
    ],
    ['a list', UPDATE, [], [': must be a JSON object, not an array']],
    [
      'more items than the rules allow, of any type',
      UPDATE,
      { images: Array.from({ length: 300_000 }, () => 1) },
      ['images: has 300000 items: at most 50 are allowed'],
    ],
    [
      'more entries than its rules allow',
      COMMAND,
      { paramsSchema: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [at, {}])) },
      ['paramsSchema: has 65 items: at most 64 are allowed'],
    ],
    ['a missing required list', MAPPINGS, {}, ['mappings: is required: set a list (an empty list removes all items)']],
    [
      'null for a required list',
      MAPPINGS,
      { mappings: null },
      ['mappings: is required: set a list (an empty list removes all items)'],
    ],
    ['an invalid required list, only once', MAPPINGS, { mappings: {} }, ['mappings: must be an array, not an object']],
    ['null', UPDATE, null, [': must be a JSON object, not null']],
    ['a string', UPDATE, 'x', [': must be a JSON object, not a string']],
  ])('%s', (_, type, body, wrong) => {
    expect(read(type, { body }).wrong).toEqual(wrong);
  });

  it.each([
    '2026-01-31',
    '2026-01-31T08:00:00',
    '2026-01-31T08:00Z',
    '2026-02-30T00:00:00Z',
    '2025-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-31T24:00:00Z',
    '2026-01-31T23:60:00Z',
    '2026-01-31T23:59:60Z',
    '2026-01-31T08:00:00.1234567890Z',
    '2026-01-31T08:00:00.Z',
    '2026-01-31T08:00:00+24:00',
    '2026-01-31T08:00:00+0100',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '0000-01-01T00:00:00Z',
    '+12026-01-31T08:00:00Z',
    '1769846400',
    '',
  ])('rejects the time %j', (time) => {
    expect(read(AGGREGATE, { body: { from: time } }).wrong).toEqual([
      `from: must be a time with its offset, for example "2026-01-31T08:00:00Z", not ${JSON.stringify(time)}`,
    ]);
  });

  it('several violations, keeping the valid values and the positions of list items', () => {
    const { message, wrong } = read('actuator_command.v2.CreateCommandRequest', {
      path: { id: 'd' },
      body: {
        command: { name: 'n', mode: 1, expectedSensorStates: [3, { sensorId: 'a', valueTemplate: 'b' }], fPort: 'x' },
      },
    });
    expect(wrong.map((one) => one.split(':')[0])).toEqual([
      'command.mode',
      'command.expectedSensorStates[0]',
      'command.fPort',
    ]);
    expect(message).toMatchObject({
      id: 'd',
      command: {
        name: 'n',
        mode: 0,
        fPort: undefined,
        expectedSensorStates: [
          { sensorId: '', valueTemplate: '' },
          { sensorId: 'a', valueTemplate: 'b' },
        ],
      },
    });
  });

  it('many violations, of which it lists at most a hundred in short form', () => {
    const body = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`${'x'.repeat(3000)}${at}`, 1]));
    const { wrong } = read(AGGREGATE, { body });
    expect(wrong).toHaveLength(100);
    expect(Math.max(...wrong.map((one) => one.length))).toBeLessThan(300);
    expect(read(COMMAND, { body: { mode: 'y'.repeat(10_000) } }).wrong[0]?.length).toBeLessThan(200);
  });
});

describe('a query is read with', () => {
  it.each<[string, string, string, object]>([
    ['texts', AGGREGATE, 'timeZone=Europe%2FRome&pageToken=', { timeZone: 'Europe/Rome', pageToken: '' }],
    [
      'lists',
      AGGREGATE,
      'sensorIds=a&functions=min&sensorIds=b&functions=max',
      { sensorIds: ['a', 'b'], functions: [1, 2] },
    ],
    ['a list of one item', AGGREGATE, 'sensorIds=a%2Cb', { sensorIds: ['a,b'] }],
    ['integers', 'sensorquery.v1.QueryRangeRequest', 'pageSize=-5', { pageSize: -5 }],
    ['doubles and booleans', 'actuator_command.v2.ParamSchema', 'min=-1.5e-3&max=10', { min: -0.0015, max: 10 }],
    [
      'true and false',
      UPDATE,
      'unbindPhysicalDevice=true&clearImages=false',
      { unbindPhysicalDevice: true, clearImages: false },
    ],
    ['times', AGGREGATE, 'from=2026-01-31T09%3A00%3A00%2B01%3A00', { from: { seconds: 1_769_846_400, nanos: 0 } }],
    ['words', AGGREGATE, 'fill=null', { fill: 2 }],
    ['bytes', UPLINK, 'bytes=-_8', { payload: { $case: 'bytes', value: Buffer.from('fbff', 'hex') } }],
    ['fields of messages', AGGREGATE, 'bucket.count=1&bucket.unit=hour', { bucket: { count: 1, unit: 3 } }],
    ['some fields of messages', AGGREGATE, 'bucket.unit=day', { bucket: { count: 0, unit: 4 } }],
  ])('%s', (_, type, query, message) => {
    expect(read(type, { query })).toEqual({ wrong: [], message: expect.objectContaining(message) });
  });
});

describe('a query is rejected for', () => {
  it.each<[string, string, string, readonly string[]]>([
    [
      'an empty string as a number',
      'sensorquery.v1.QueryRangeRequest',
      'pageSize=',
      [`pageSize: must be ${SIZE}, not ""`],
    ],
    [
      'a number with surrounding characters',
      'sensorquery.v1.QueryRangeRequest',
      'pageSize=%205',
      [`pageSize: must be ${SIZE}, not " 5"`],
    ],
    [
      'a number with a leading zero',
      'sensorquery.v1.QueryRangeRequest',
      'pageSize=010',
      [`pageSize: must be ${SIZE}, not "010"`],
    ],
    [
      'a number with an exponent',
      'sensorquery.v1.QueryRangeRequest',
      'pageSize=1e2',
      [`pageSize: must be ${SIZE}, not "1e2"`],
    ],
    [
      'a number that is too large',
      'sensorquery.v1.QueryRangeRequest',
      'pageSize=2147483648',
      [`pageSize: must be ${SIZE}, not "2147483648"`],
    ],
    [
      'an invalid double',
      'actuator_command.v2.ParamSchema',
      'min=NaN&max=1e999',
      ['min: must be a number, not "NaN"', 'max: must be a number, not "1e999"'],
    ],
    ['an invalid boolean', UPDATE, 'clearImages=1', ['clearImages: must be true or false, not "1"']],
    [
      'an unknown word',
      AGGREGATE,
      'fill=zero&functions=min&functions=median',
      [
        'fill: must be one of none, null, previous, linear, not "zero"',
        'functions[1]: must be one of min, max, avg, sum, count, first, last, time_weighted_average, not "median"',
      ],
    ],
    [
      'a time whose plus became a space',
      AGGREGATE,
      'from=2026-01-31T09:00:00+01:00',
      [
        'from: must be a time with its offset, for example "2026-01-31T08:00:00Z" (in a query, write + as %2B), not "2026-01-31T09:00:00 01:00"',
      ],
    ],
    [
      'a name that is given twice',
      AGGREGATE,
      'timeZone=UTC&timeZone=UTC',
      ['timeZone: is set 2 times: set it only once'],
    ],
    [
      'an unknown name, without its value',
      AGGREGATE,
      'sensorId=secret',
      ['sensorId: unknown field; did you mean sensorIds?'],
    ],
    [
      'an unknown name in a message',
      AGGREGATE,
      'bucket.size=1',
      ['bucket.size: unknown field; known fields are count, unit'],
    ],
    ['a name in a scalar', AGGREGATE, 'fill.x=1', ['fill.x: unknown field; fill has no fields']],
    ['a name in a list', AGGREGATE, 'sensorIds.0=a', ['sensorIds.0: unknown field; sensorIds has no fields']],
    ['brackets', AGGREGATE, 'sensorIds[]=a', ['sensorIds[]: unknown field; did you mean sensorIds?']],
    ['a message as a string', AGGREGATE, 'bucket=5', ['bucket: is an object: set its fields as bucket.name=value']],
    [
      'free JSON',
      UPDATE,
      'physicalDevice.configuration=%7B%7D',
      ['physicalDevice.configuration: cannot be set in a query'],
    ],
    ['a map', COMMAND, 'paramsSchema=x', ['paramsSchema: cannot be set in a query']],
    ['a list of messages', UPDATE, 'images=x', ['images: cannot be set in a query']],
    [
      'two cases of a oneof',
      'sensorquery.v1.Reading',
      'number=1&text=x',
      ['text: cannot be combined with number: set only one of them'],
    ],
    ['an empty name', 'sensorquery.v1.BucketLength', '=x', [': unknown field; known fields are count, unit']],
    [
      'very many dots',
      AGGREGATE,
      `${'bucket.'.repeat(3000)}x=1`,
      [expect.stringMatching(/^bucket\.bucket\.bucket.*…/)],
    ],
    [
      'one dot too many',
      AGGREGATE,
      'bucket.bucket.count=1',
      ['bucket.bucket: unknown field; known fields are count, unit'],
    ],
  ])('%s', (_, type, query, wrong) => {
    expect(read(type, { query }).wrong).toEqual(wrong);
  });
});

describe('path, query and body together', () => {
  const body = { organizationId: 'o', name: 'n' };

  it('form one message', () => {
    expect(
      read(UPDATE, { path: { id: 'd' }, body: { name: 'n' }, bodyRule: '*', query: 'organizationId=o' }),
    ).toMatchObject({ wrong: [], message: { id: 'd', name: 'n', organizationId: 'o' } });
  });

  it('may repeat the same value', () => {
    expect(
      read(UPDATE, { path: { id: 'd' }, body: { id: 'd', name: 'n' }, bodyRule: '*', query: 'id=d' }).wrong,
    ).toEqual([]);
  });

  it('must not contradict each other, except for the organization, which the caller checks', () => {
    const { message, wrong } = read(UPDATE, {
      path: { id: 'd' },
      body: { ...body, id: 'e' },
      bodyRule: '*',
      query: 'id=f&organizationId=p',
    });
    expect(wrong).toEqual([
      'id: has different values in the query and in the body: send only one of them',
      'id: differs from the value in the path: remove it from the query and the body',
    ]);
    expect(message).toMatchObject({ id: 'd', name: 'n', organizationId: 'o' });
  });

  it('must not differ between path and query', () => {
    expect(
      read('digitaldevice.v2.GetDigitalDeviceRequest', { path: { id: 'd' }, query: 'id=e', bodyRule: '' }).wrong,
    ).toEqual(['id: differs from the value in the path: remove it from the query and the body']);
  });

  it('accept proto field names in the path', () => {
    expect(read('actuator_command.v2.GetCommandRequest', { path: { id: 'd', command_id: 'c' } })).toMatchObject({
      wrong: [],
      message: { id: 'd', commandId: 'c' },
    });
  });

  it.each([{}, undefined])(
    'accept in the query only the organization and path fields when the body %j is the request',
    (sent) => {
      expect(read(UPDATE, { body: sent, bodyRule: '*', query: 'id=d&organizationId=o' })).toMatchObject({
        wrong: [],
        message: { id: 'd', organizationId: 'o' },
      });
      const names = ['name', 'physicalDevice.clientDeviceId', 'images', 'clearImages', 'etag'];
      const wrong = names.map((name) => `${name}: must be in the body, not in the query`);
      expect(
        read(UPDATE, { body: sent, bodyRule: '*', query: names.map((name) => `${name}=x`).join('&') }).wrong,
      ).toEqual(wrong);
    },
  );

  it('accept no body except an empty object when the route has none', () => {
    expect(
      read('digitaldevice.v2.GetDigitalDeviceRequest', { path: { id: 'd' }, body: {}, bodyRule: '' }).wrong,
    ).toEqual([]);
    for (const one of [{ id: 'd' }, [], null, 0, ''])
      expect(
        read('digitaldevice.v2.GetDigitalDeviceRequest', { path: { id: 'd' }, body: one, bodyRule: '' }).wrong,
      ).toEqual([': the request must not have a body']);
  });

  it('report that fields outside of the path belong in the query when a body was sent', () => {
    const { wrong } = read('DeleteOrganizationRequest', {
      path: { id: 'o' },
      body: { confirmation: 'c', name: 'n' },
      bodyRule: '',
    });
    expect(wrong).toEqual([': the request must not have a body: set confirmation, name in the query']);
  });

  it('accept a field as the body', () => {
    const type = 'actuator_command.v2.CreateCommandRequest';
    expect(
      read(type, {
        path: { id: 'd' },
        body: { name: 'n', mode: 'x' },
        bodyRule: 'command',
        query: 'organizationId=o&command.name=m',
      }),
    ).toMatchObject({
      message: { id: 'd', organizationId: 'o', command: { name: 'n' } },
      wrong: [
        'command.mode: must be one of direct, encoded, not "x"',
        'command.name: is set by the body: remove it from the query',
      ],
    });
  });
});
