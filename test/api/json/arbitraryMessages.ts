import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import type { Descriptors } from '../../../src/api/descriptors/descriptors';
import { INTEGER_RANGES, getScalar } from '../../../src/api/json/scalars';

type Fields = Record<string, unknown>;
type Arbitrary = fc.Arbitrary<unknown>;

const MAX_DEPTH = 4;

const text = fc.string({ unit: 'grapheme', maxLength: 10 }).filter((one) => !one.includes('\0'));
const name = text.filter((one) => one !== '__proto__');
// JSON has neither -0 nor non-finite numbers.
const double = fc
  .double({ noNaN: true, noDefaultInfinity: true })
  .map((value) => (Math.abs(value) > 2 ** 53 ? 1.5 : value + 0));
const nanos = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 0, max: 999 }).map((ms) => ms * 1_000_000),
  fc.integer({ min: 0, max: 999_999_999 }),
);
const freeJson = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constant(null),
    fc.boolean(),
    double,
    text,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;

const WELL_KNOWN: Readonly<Record<string, Arbitrary>> = {
  'google.protobuf.Timestamp': fc.record(
    { seconds: fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }), nanos },
    { noNullPrototype: true },
  ),
  'google.protobuf.Duration': fc
    .tuple(fc.integer({ min: 0, max: 10_000_000 }), nanos, fc.constantFrom(1, -1))
    .map(([seconds, rest, sign]) => ({ seconds: seconds * sign + 0, nanos: rest * sign + 0 })),
  'google.protobuf.Struct': fc.dictionary(name, freeJson, { maxKeys: 3, noNullPrototype: true }),
  'google.protobuf.ListValue': fc.array(freeJson, { maxLength: 3 }),
  'google.protobuf.Value': freeJson,
};

const SCALARS: Readonly<Partial<Record<ScalarType, Arbitrary>>> = {
  [ScalarType.STRING]: text,
  [ScalarType.BOOL]: fc.boolean(),
  [ScalarType.BYTES]: fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
  [ScalarType.DOUBLE]: double,
  [ScalarType.FLOAT]: fc
    .float({ noNaN: true, noDefaultInfinity: true, min: -(2 ** 24), max: 2 ** 24 })
    .map((value) => value + 0),
};

function scalar(type: ScalarType): Arbitrary {
  const [min, max] = INTEGER_RANGES[type] ?? [0, 0];
  return SCALARS[type] ?? fc.integer({ min, max });
}

/**
 * Generates messages of a type as ts-proto represents them, with values that JSON can carry: no enum value 0 where the
 * enum is optional or in a list, and only the fields that `only` allows.
 */
export class ArbitraryMessages {
  private readonly known = new Map<string, fc.Arbitrary<Fields>>();

  constructor(private readonly descriptors: Descriptors) {}

  of(desc: DescMessage, only: readonly string[] = [], depth = MAX_DEPTH): fc.Arbitrary<Fields> {
    const key = `${desc.typeName} ${depth} ${only.join(',')}`;
    const known = this.known.get(key) ?? this.build(desc, only, depth);
    this.known.set(key, known);
    return known;
  }

  private build(desc: DescMessage, only: readonly string[], depth: number): fc.Arbitrary<Fields> {
    const members = desc.members.map((member): readonly [string, Arbitrary] => [
      member.localName,
      member.kind === 'oneof' ? this.oneof(member.fields, depth) : this.field(member, only, depth),
    ]);
    return fc
      .record(Object.fromEntries(members), { noNullPrototype: true })
      .map((message) => this.withFlags(desc, message));
  }

  private oneof(fields: readonly DescField[], depth: number): Arbitrary {
    return fc.oneof(
      fc.constant(undefined),
      ...fields.map((field) => this.value(field, [], depth).map((value) => ({ $case: field.localName, value }))),
    );
  }

  private field(field: DescField, only: readonly string[], depth: number): Arbitrary {
    const isLeftOut = only.length > 0 && !only.some((path) => path === field.name || path.startsWith(`${field.name}.`));
    if (isLeftOut || depth === 0) return fc.constant(createZero(field));
    const inner = only
      .filter((path) => path.startsWith(`${field.name}.`))
      .map((path) => path.slice(field.name.length + 1));
    const value = this.value(field, inner, depth);
    if (field.fieldKind === 'list') return fc.array(value, { maxLength: 3 });
    if (field.fieldKind === 'map') return fc.dictionary(name, value, { maxKeys: 3, noNullPrototype: true });
    return fc.oneof(fc.constant(createZero(field)), value);
  }

  private value(field: DescField, only: readonly string[], depth: number): Arbitrary {
    const form = this.descriptors.findJsonForm(field);
    if (field.message)
      return (
        WELL_KNOWN[field.message.typeName] ??
        this.of(field.message, form && form.only.length > 0 ? form.only : only, depth - 1)
      );
    if (field.enum)
      return fc.constantFrom(...field.enum.values.map(({ number }) => number).filter((number) => number !== 0));
    return scalar(field.scalar ?? ScalarType.INT32);
  }

  // An empty list in JSON sets the flag.
  private withFlags(desc: DescMessage, message: Fields): Fields {
    for (const field of desc.fields) {
      const flag = desc.fields.find(({ name }) => name === this.descriptors.findJsonForm(field)?.emptyClears);
      if (flag && (message[field.localName] as unknown[]).length === 0) message[flag.localName] = true;
    }
    return message;
  }
}

function createZero(field: DescField): unknown {
  if (field.fieldKind === 'list') return [];
  if (field.fieldKind === 'map') return {};
  if (field.fieldKind === 'message' || field.presence !== FeatureSet_FieldPresence.IMPLICIT) return undefined;
  return field.enum ? 0 : getScalar(field.scalar).createDefault();
}
