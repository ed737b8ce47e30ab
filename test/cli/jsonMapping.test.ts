import { createFileRegistry, fromBinary, ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { loadFileDescriptorSetFromBuffer, type MessageTypeDefinition } from '@grpc/proto-loader';
import fc from 'fast-check';
import { messageFromJson, messageToJson } from '../../src/cli/call/jsonMapping';
import { LOADER_OPTIONS } from '../../src/cli/call/serverMethods';
import { ExecuteCommandResponse, ExecutionState } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { readAsset } from '../../src/kernel/assets';
import type { DomainError } from '../../src/kernel/errors';

const SEED = 20_261_120;
const image = readAsset('image.binpb');
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, image));
const definitions = loadFileDescriptorSetFromBuffer(image, LOADER_OPTIONS);

const getType = (name: string): DescMessage => registry.getMessage(name) as DescMessage;
const roundTrip = (type: DescMessage, json: unknown): unknown => {
  const codec = definitions[type.typeName] as MessageTypeDefinition<object, object>;
  return messageToJson(type, codec.deserialize(codec.serialize(messageFromJson(type, json))));
};

const keys = fc.string({ maxLength: 8 });
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
    fc.string(),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(keys, tie('value'), { maxKeys: 3 }),
  ),
})).value;
const wellKnown: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  'google.protobuf.Timestamp': fc
    .date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })
    .map((date) => date.toISOString()),
  'google.protobuf.Duration': fc.integer({ min: -1_000_000, max: 1_000_000 }).map((seconds) => `${seconds}.250s`),
  'google.protobuf.Struct': fc.dictionary(keys, values, { maxKeys: 4 }),
  'google.protobuf.Value': values,
};

function scalar(type: ScalarType): fc.Arbitrary<unknown> {
  if (type === ScalarType.STRING) return fc.string({ unit: 'grapheme' });
  if (type === ScalarType.BOOL) return fc.boolean();
  if (type === ScalarType.BYTES)
    return fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes).toString('base64'));
  if (type === ScalarType.DOUBLE) return fc.double({ noDefaultInfinity: true, noNaN: true }).map((n) => n + 0);
  if (type === ScalarType.FLOAT) return fc.float({ noDefaultInfinity: true, noNaN: true }).map((n) => n + 0);
  if (type === ScalarType.INT64) return fc.maxSafeInteger();
  return fc.integer({ min: type === ScalarType.UINT32 ? 0 : -(2 ** 31), max: 2 ** 31 - 1 });
}

function generateField(field: DescField, depth: number): fc.Arbitrary<unknown> {
  if (field.message) return wellKnown[field.message.typeName] ?? generateMessage(field.message, depth - 1);
  if (field.enum)
    return fc.constantFrom(
      ...field.enum.values.slice(1).map((v) => v.name.slice(field.enum?.sharedPrefix?.length ?? 0).toLowerCase()),
    );
  return scalar(field.scalar);
}

const always = (f: DescField): boolean =>
  f.fieldKind === 'list' ||
  f.fieldKind === 'map' ||
  (f.fieldKind === 'scalar' && f.presence === FeatureSet_FieldPresence.IMPLICIT);

/** Generates JSON as the contract defines it: required fields are present, and each oneof has exactly one member. */
function generateMessage(type: DescMessage, depth: number): fc.Arbitrary<unknown> {
  const fields = type.fields.filter((f) => always(f) || depth > 0);
  const shape = fields.map((f): [string, fc.Arbitrary<unknown>] => {
    if (f.fieldKind === 'list')
      return [f.jsonName, fc.array(generateField(f, depth), { maxLength: depth > 0 ? 2 : 0 })];
    if (f.fieldKind === 'map')
      return [f.jsonName, fc.dictionary(keys, generateField(f, depth), { maxKeys: depth > 0 ? 2 : 0 })];
    return [f.jsonName, generateField(f, depth)];
  });
  const required = fields.filter((f) => always(f)).map((f) => f.jsonName);
  return fc.record(Object.fromEntries(shape), { requiredKeys: required }).map((json) => {
    const keptFields = type.oneofs.flatMap((oneof) =>
      oneof.fields
        .filter((f) => f.jsonName in json)
        .slice(1)
        .map((f) => f.jsonName),
    );
    return Object.fromEntries(Object.entries(json).filter(([key]) => !keptFields.includes(key)));
  });
}

const ownMessages = [...registry].filter(
  (type): type is DescMessage =>
    type.kind === 'message' && !type.typeName.startsWith('google.') && !type.typeName.startsWith('grpc.'),
);

describe('JSON messages', () => {
  it.each(ownMessages.map((type) => [type.typeName, type] as const))(
    `of %s are unchanged after a round trip over the wire (seed ${SEED})`,
    (_, type) => {
      fc.assert(
        fc.property(generateMessage(type, 3), (json) => expect(roundTrip(type, json)).toEqual(json)),
        { seed: SEED, numRuns: 30 },
      );
    },
  );

  it('match the contract', () => {
    const type = getType('actuator_command.v2.ExecuteCommandResponse');
    const bytes = ExecuteCommandResponse.encode({
      accepted: false,
      duplicate: false,
      executionId: 'e',
      state: ExecutionState.EXECUTION_STATE_IN_TRANSIT,
      rejectionReason: undefined,
      violations: [],
    }).finish();
    const codec = definitions[type.typeName] as MessageTypeDefinition<object, object>;
    expect(messageToJson(type, codec.deserialize(Buffer.from(bytes)))).toEqual({
      accepted: false,
      duplicate: false,
      executionId: 'e',
      state: 'in_transit',
      violations: [],
    });
  });

  it('accept proto field names, null for absent, 64-bit integers as text, and any time offset', () => {
    expect(
      roundTrip(getType('actuator_command.v2.CommandDefinition'), {
        verification_strategy: 'NO_VERIFICATION'.toLowerCase(),
        mode: 'COMMAND_MODE_DIRECT',
        description: null,
      }),
    ).toMatchObject({ mode: 'direct', verificationStrategy: 'no_verification' });
    expect(roundTrip(getType('digitaldevice.v2.ConnectorKey'), { timestamp: '1700000000000' })).toMatchObject({
      timestamp: 1_700_000_000_000,
    });
    expect(
      roundTrip(getType('organization_access_control.CreateApiKeyRequest'), {
        expiresAt: '2026-01-31T09:00:00.123456+01:00',
      }),
    ).toMatchObject({ expiresAt: '2026-01-31T08:00:00.123456Z' });
  });

  it('report every error with its path', () => {
    const json = {
      command: {
        mode: 'fast',
        nmae: 'x',
        fPort: 1.5,
        paramsSchema: { x: { min: 'a', type: 3 } },
        expectedSensorStates: [{ sensorId: 7 }, 3],
      },
      id: {},
    };
    const error = (() => {
      try {
        return messageFromJson(getType('actuator_command.v2.CreateCommandRequest'), json);
      } catch (caught) {
        return caught;
      }
    })() as DomainError;
    expect(error.violations.map((v) => `${v.field}: ${v.description}`)).toEqual([
      'command.mode: must be one of direct, encoded, not "fast"',
      'command.nmae: unknown field; did you mean name?',
      `command.fPort: must be a whole number from -2147483648 to 2147483647, not 1.5`,
      'command.paramsSchema.x.min: must be a number, not "a"',
      'command.expectedSensorStates[0].sensorId: must be a string, not 7',
      'command.expectedSensorStates[1]: must be a JSON object (ExpectedSensorState), not 3',
      'id: must be a string, not {}',
    ]);
  });

  it('accept only one member of a oneof', () => {
    expect(() => messageFromJson(getType('gateway.v1.Uplink'), { json: {}, bytes: '' })).toThrow(
      'only one of these fields may be set: json, bytes',
    );
  });
});
