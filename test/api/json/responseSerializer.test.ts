import type { DescMessage } from '@bufbuild/protobuf';
import {
  DataSendingIntervalUnit,
  DigitalDevice,
  ListDigitalDevicesResponse,
} from '../../../src/gen/digitaldevice/v2/digital_device_service';
import {
  Execution,
  ExecutionState,
  ListExecutionsResponse,
  RejectionReason,
} from '../../../src/gen/actuator_command/v2/actuator_command_service';
import { AggregateBucket, Reading } from '../../../src/gen/sensorquery/v1/sensor_query_service';
import { Uplink } from '../../../src/gen/gateway/v1/gateway_service';
import { getApiDescriptors } from '../../../src/api/descriptors/descriptors';
import { ResponseSerializers } from '../../../src/api/json/responseSerializer';
import { getEnumWord, listEnumWords } from '../../../src/api/json/enumWords';
import { parseDuration, formatDuration, parseTimestamp, formatTimestamp } from '../../../src/api/json/times';

const descriptors = getApiDescriptors();
const writers = new ResponseSerializers(descriptors);

const parseType = (name: string): DescMessage => descriptors.registry.getMessage(name) as DescMessage;
const written = (name: string, message: unknown): unknown =>
  JSON.parse(writers.getSerializer(parseType(name)).toText(message));

const DEVICE = 'digitaldevice.v2.DigitalDevice';
const READING = 'sensorquery.v1.Reading';
const time = { seconds: 1_769_846_400, nanos: 0 };

describe('a response', () => {
  it('always contains lists, maps and scalars, and omits absent fields', () => {
    expect(written(DEVICE, DigitalDevice.fromPartial({}))).toEqual({
      id: '',
      name: '',
      organizationId: '',
      sensors: [],
      images: [],
      etag: '',
    });
    expect(
      written('actuator_command.v2.Command', {
        paramsSchema: {},
        expectedSensorStates: [],
        revision: 0,
        name: 'x',
        confirmed: false,
        warnings: [],
      }),
    ).toMatchObject({ paramsSchema: {}, expectedSensorStates: [], revision: 0, confirmed: false });
  });

  it('orders its fields as in the proto', () => {
    const text = writers
      .getSerializer(parseType(READING))
      .toText(Reading.fromPartial({ sequence: 7, value: { $case: 'text', value: 'x' }, sensorId: 's', time }));
    expect(text).toBe('{"sensorId":"s","time":"2026-01-31T08:00:00.000Z","text":"x","sequence":7}');
  });

  it('contains null where the specification requires it', () => {
    expect(
      written(
        'actuator_command.v2.ListExecutionsResponse',
        ListExecutionsResponse.fromPartial({ items: [{ id: 'e', state: ExecutionState.EXECUTION_STATE_IN_TRANSIT }] }),
      ),
    ).toEqual({
      items: [expect.objectContaining({ id: 'e', state: 'in_transit', rejectionReason: null, commandId: null })],
      nextCursor: null,
    });
    expect(
      written(
        'actuator_command.v2.Execution',
        Execution.fromPartial({ rejectionReason: RejectionReason.REJECTION_REASON_UNSPECIFIED }),
      ),
    ).toMatchObject({ rejectionReason: null });
  });

  it('contains in lists only the fields that the specification lists', () => {
    const device = DigitalDevice.fromPartial({
      id: 'd',
      etag: '"1"',
      images: [],
      dataSendingInterval: { unit: DataSendingIntervalUnit.DATA_SENDING_INTERVAL_UNIT_HOUR, value: 1 },
      physicalDevice: {
        id: 'p',
        clientDeviceId: 'c',
        connectionId: 'n',
        configuration: { secret: 1 },
        sensorMappings: [{ id: 'm' }],
        createdAt: time,
      },
      sensors: [{ id: 's', sensorTemplateId: 't', createdAt: time }],
      createdAt: time,
    });
    expect(
      written(
        'digitaldevice.v2.ListDigitalDevicesResponse',
        ListDigitalDevicesResponse.fromPartial({ devices: [device], total: 1 }),
      ),
    ).toEqual({
      devices: [
        {
          id: 'd',
          name: '',
          organizationId: '',
          physicalDevice: { id: 'p', clientDeviceId: 'c', connectionId: 'n' },
          sensors: [{ id: 's', sensorTemplateId: 't' }],
          createdAt: '2026-01-31T08:00:00.000Z',
        },
      ],
      total: 1,
      nextPageToken: '',
    });
    expect(written(DEVICE, device)).toMatchObject({
      etag: '"1"',
      dataSendingInterval: { unit: 'hour', value: 1 },
      physicalDevice: { configuration: { secret: 1 } },
    });
  });

  it('omits everything that is not in the proto', () => {
    expect(written(DEVICE, { ...DigitalDevice.fromPartial({}), keyHash: 'secret' })).not.toHaveProperty('keyHash');
  });

  it.each<[string, Reading['value'], object]>([
    ['a double', { $case: 'number', value: 1.5e300 }, { number: 1.5e300 }],
    ['minus zero', { $case: 'number', value: -0 }, { number: 0 }],
    ['NaN', { $case: 'number', value: Number.NaN }, { number: 'NaN' }],
    ['infinity', { $case: 'number', value: -Infinity }, { number: '-Infinity' }],
    ['an integer', { $case: 'integer', value: 9_007_199_254_740_991 }, { integer: 9_007_199_254_740_991 }],
    ['false', { $case: 'boolean', value: false }, { boolean: false }],
    ['an empty text', { $case: 'text', value: '' }, { text: '' }],
    [
      'special characters',
      { $case: 'text', value: '"\\/\b\u0001\u2028😀</script>' },
      { text: '"\\/\b\u0001\u2028😀</script>' },
    ],
    ['an unpaired surrogate', { $case: 'text', value: '\ud83d' }, { text: '\ud83d' }],
    ['JSON', { $case: 'json', value: { a: [1, null, { b: 'x' }] } }, { json: { a: [1, null, { b: 'x' }] } }],
  ])('writes a case of a oneof by its name: %s', (_, value, json) => {
    const { sensorId, sequence, ...rest } = written(READING, { ...Reading.fromPartial({}), value }) as Record<
      string,
      unknown
    >;
    expect({ sensorId, sequence }).toEqual({ sensorId: '', sequence: 0 });
    expect(rest).toEqual(json);
  });

  it('writes null as a JSON value and numbers that are 0', () => {
    expect(written(READING, { ...Reading.fromPartial({}), value: { $case: 'json', value: null } })).toMatchObject({
      json: null,
    });
    expect(
      written(
        'sensorquery.v1.AggregateBucket',
        AggregateBucket.fromPartial({ count: 0, sum: Number.POSITIVE_INFINITY }),
      ),
    ).toEqual({ count: 0, sum: 'Infinity' });
  });

  it('writes bytes in base64, also for a view of a larger buffer', () => {
    expect(
      written('gateway.v1.Uplink', {
        ...Uplink.fromPartial({}),
        payload: { $case: 'bytes', value: Buffer.from('00fbff00', 'hex').subarray(1, 3) },
      }),
    ).toMatchObject({ bytes: '+/8=' });
  });

  it('writes the number of an unknown enum value', () => {
    expect(
      written(
        DEVICE,
        DigitalDevice.fromPartial({ dataSendingInterval: { unit: 77 as DataSendingIntervalUnit, value: 1 } }),
      ),
    ).toMatchObject({ dataSendingInterval: { unit: 77 } });
  });
});

describe('enum words', () => {
  it('are the enum names without their prefix, in lower case', () => {
    const state = descriptors.registry.getEnum('actuator_command.v2.ExecutionState');
    if (!state) throw new Error('there is no ExecutionState');
    expect(getEnumWord(state, ExecutionState.EXECUTION_STATE_ACCEPTED_NO_L4)).toBe('accepted_no_l4');
    expect(getEnumWord(state, 999)).toBeUndefined();
    expect(listEnumWords(state)).toEqual(expect.arrayContaining(['enqueued', 'in_transit']));
    expect(listEnumWords(state)).not.toContain('unspecified');
    const serving = descriptors.registry.getEnum('grpc.health.v1.HealthCheckResponse.ServingStatus');
    expect(serving && listEnumWords(serving)).toContain('not_serving');
  });
});

describe('times in responses', () => {
  it.each([
    [{ seconds: 0, nanos: 0 }, '1970-01-01T00:00:00.000Z'],
    [{ seconds: 0, nanos: 1_000_000 }, '1970-01-01T00:00:00.001Z'],
    [{ seconds: -1, nanos: 999_000_000 }, '1969-12-31T23:59:59.999Z'],
    [{ seconds: 1_769_846_400, nanos: 123_456_000 }, '2026-01-31T08:00:00.123456Z'],
    [{ seconds: 1_769_846_400, nanos: 1 }, '2026-01-31T08:00:00.000000001Z'],
    [{ seconds: -62_135_596_800, nanos: 0 }, '0001-01-01T00:00:00.000Z'],
    [{ seconds: 253_402_300_799, nanos: 999_999_999 }, '9999-12-31T23:59:59.999999999Z'],
  ])('%j is %s', (value, text) => {
    expect(formatTimestamp(value)).toBe(text);
    expect(formatTimestamp(value)).toBe(text); // the second call uses the cache
    expect(parseTimestamp(text)).toEqual(value);
  });

  it('are cached up to a limit', () => {
    for (let at = 0; at < 10_000; at += 1)
      expect(formatTimestamp({ seconds: at, nanos: 0 })).toBe(new Date(at * 1000).toISOString());
  });

  it.each([
    [{ seconds: 0, nanos: 0 }, '0s'],
    [{ seconds: 1, nanos: 500_000_000 }, '1.500s'],
    [{ seconds: -1, nanos: -500_000 }, '-1.000500s'],
    [{ seconds: 0, nanos: -1 }, '-0.000000001s'],
    [{ seconds: 315_576_000_000, nanos: 0 }, '315576000000s'],
  ])('the duration %j is %s', (value, text) => {
    expect(formatDuration(value)).toBe(text);
    expect(parseDuration(text)).toEqual(value);
  });

  it.each(['1', '1m', '.5s', '1.s', '1.0000000001s', '+1s', '1e3s', '315576000001s', ''])(
    '%j is not a duration',
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );
});
