import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import fc from 'fast-check';
import { sqliteOnly } from '../support/engines';
import { as, descriptors, encode, startTestApp, type TestApp } from '../support/testApp';

const SEED = 20261120;
const RUNS = 25;
const MAX_DEPTH = 4;
const CLEAN = new Set([
  status.OK,
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.UNAUTHENTICATED,
  status.FAILED_PRECONDITION,
  status.ALREADY_EXISTS,
  status.ABORTED,
  status.OUT_OF_RANGE,
  status.PERMISSION_DENIED,
]);
const methods = [...descriptors.methods.values()].map((descriptor) => [descriptor.path, descriptor] as const);

const integer = fc.oneof(fc.integer({ min: -5, max: 300 }), fc.constantFrom(-(2 ** 31), 2 ** 31 - 1));
const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.constantFrom(
    '',
    'gateway',
    '{{params.x}}',
    '{"a": {{',
    "'; drop table users; --",
    '\u0000',
    '\u202E',
    'x'.repeat(5000),
    '%',
    '[object Object]',
    'number',
  ),
);

/** Generates any wire value of a field. */
function getValue(field: DescField, depth: number): fc.Arbitrary<unknown> {
  if (field.fieldKind === 'list')
    return fc.array(
      field.listKind === 'message'
        ? toMessage(field.message, depth + 1)
        : getScalar(field.listKind === 'enum' ? undefined : field.scalar),
      { maxLength: 3 },
    );
  if (field.fieldKind === 'map')
    return fc.dictionary(
      text,
      field.mapKind === 'message'
        ? toMessage(field.message, depth + 1)
        : getScalar(field.mapKind === 'enum' ? undefined : field.scalar),
      { maxKeys: 3 },
    );
  if (field.fieldKind === 'message') return toMessage(field.message, depth + 1);
  return getScalar(field.fieldKind === 'enum' ? undefined : field.scalar);
}

const SCALARS = new Map<ScalarType | undefined, fc.Arbitrary<unknown>>([
  [undefined, integer], // an enum
  [ScalarType.INT32, integer],
  [ScalarType.STRING, text.map((value) => value.toWellFormed())],
  [ScalarType.BOOL, fc.boolean()],
  [ScalarType.BYTES, fc.uint8Array({ maxLength: 50 })],
  [ScalarType.DOUBLE, fc.double()],
  [ScalarType.INT64, fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })],
]);

function getScalar(type: ScalarType | undefined): fc.Arbitrary<unknown> {
  const values = SCALARS.get(type);
  if (!values) throw new Error(`the fuzzer has no values for scalar type ${type} yet`);
  return values;
}

function toMessage(message: DescMessage, depth: number): fc.Arbitrary<unknown> {
  if (message.typeName === 'google.protobuf.Struct')
    return fc.dictionary(text, fc.jsonValue({ maxDepth: 3 }), { maxKeys: 4 });
  if (message.typeName === 'google.protobuf.Value') return fc.jsonValue().map((json) => wrapped(json));
  if (depth > MAX_DEPTH) return fc.constant({});
  const plain = message.fields.filter((field) => !field.oneof);
  const fields = Object.fromEntries(plain.map((field) => [field.localName, getValue(field, depth)]));
  const unions = Object.fromEntries(
    message.oneofs.map((oneof) => [
      oneof.localName,
      fc.oneof(
        ...oneof.fields.map((field) => getValue(field, depth).map((value) => ({ case: field.localName, value }))),
      ),
    ]),
  );
  return fc.record({ ...fields, ...unions }, { requiredKeys: [] });
}

/** Builds a google.protobuf.Value as the protobuf runtime expects it. */
function wrapped(json: unknown): unknown {
  if (json === null) return { kind: { case: 'nullValue', value: 0 } };
  if (typeof json === 'number') return { kind: { case: 'numberValue', value: json } };
  if (typeof json === 'string') return { kind: { case: 'stringValue', value: json } };
  if (typeof json === 'boolean') return { kind: { case: 'boolValue', value: json } };
  if (Array.isArray(json)) return { kind: { case: 'listValue', value: { values: json.map(wrapped) } } };
  return { kind: { case: 'structValue', value: json } };
}

describe.each(sqliteOnly())('every method answers random requests with a clean code, on $name', (engine) => {
  let server: TestApp;
  beforeAll(async () => (server = await startTestApp(engine)));
  afterAll(() => server.stop());

  it.each(methods)(`%s (seed ${SEED})`, async (path, descriptor) => {
    const wellFormed = toMessage(descriptor.request, 0).map((fields) =>
      encode(descriptor.request, fields as Record<string, unknown>),
    );
    const damaged = fc
      .tuple(wellFormed, fc.nat(), fc.nat(255))
      .map(([bytes, at, value]) => (bytes.length === 0 ? bytes : bytes.with(at % bytes.length, value)));
    const message = fc.oneof(wellFormed, damaged, fc.uint8Array({ maxLength: 200 }));
    // A stream without a response stays open, for example for an uplink of an unknown device. The exception is Attach
    // without a Hello, which ends the stream.
    await fc.assert(
      fc.asyncProperty(message, async (bytes) => {
        const { code, error } = await server.send(descriptor, bytes, as(server.key, server.organizationId));
        if (!CLEAN.has(code)) throw new Error(`${path} answered ${status[code]}: ${error?.message}`);
      }),
      { seed: SEED, numRuns: RUNS, endOnFailure: true },
    );
  });

  it('keeps serving and logs no internal error', () => {
    expect(server.log.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });
});
