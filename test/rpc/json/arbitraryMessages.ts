import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import type { Descriptors } from '../../../src/rpc/descriptors';

type Fields = Record<string, unknown>;
type Arbitrary = fc.Arbitrary<unknown>;

const DEEPEST = 4;

const text = fc.string({ unit: 'grapheme', maxLength: 10 }).filter((one) => !one.includes('\0'));
const name = text.filter((one) => one !== '__proto__');
// JSON has no -0 and nothing that is not finite.
const double = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (Math.abs(value) > 2 ** 53 ? 1.5 : value + 0));
const nanos = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 999 }).map((ms) => ms * 1_000_000), fc.integer({ min: 0, max: 999_999_999 }));
const freeJson = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, fc.constant(null), fc.boolean(), double, text, fc.array(tie('value'), { maxLength: 3 }), fc.dictionary(name, tie('value'), { maxKeys: 3, noNullPrototype: true })),
})).value;

const WELL_KNOWN: Readonly<Record<string, Arbitrary>> = {
  'google.protobuf.Timestamp': fc.record({ seconds: fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }), nanos }, { noNullPrototype: true }),
  'google.protobuf.Duration': fc.tuple(fc.integer({ min: 0, max: 10_000_000 }), nanos, fc.constantFrom(1, -1)).map(([seconds, rest, sign]) => ({ seconds: seconds * sign + 0, nanos: rest * sign + 0 })),
  'google.protobuf.Struct': fc.dictionary(name, freeJson, { maxKeys: 3, noNullPrototype: true }),
  'google.protobuf.ListValue': fc.array(freeJson, { maxLength: 3 }),
  'google.protobuf.Value': freeJson,
};

function scalar(type: ScalarType): Arbitrary {
  switch (type) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes));
    case ScalarType.DOUBLE:
      return double;
    case ScalarType.FLOAT:
      return fc.float({ noNaN: true, noDefaultInfinity: true, min: -(2 ** 24), max: 2 ** 24 }).map((value) => value + 0);
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return fc.maxSafeInteger();
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return fc.maxSafeNat();
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return fc.integer({ min: 0, max: 2 ** 32 - 1 });
    default:
      return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  }
}

/** Messages of a type as ts-proto holds them, of what JSON can carry: no enum that is 0 where it is optional or in a list, and of fields that `only` limits no others. */
export class ArbitraryMessages {
  constructor(private readonly descriptors: Descriptors) {}

  of(desc: DescMessage, only: readonly string[] = [], depth = DEEPEST): fc.Arbitrary<Fields> {
    const members = desc.members.map((member): readonly [string, Arbitrary] => [member.localName, member.kind === 'oneof' ? this.oneof(member.fields, depth) : this.field(member, only, depth)]);
    return fc.record(Object.fromEntries(members), { noNullPrototype: true }).map((message) => this.withFlags(desc, message));
  }

  private oneof(fields: readonly DescField[], depth: number): Arbitrary {
    return fc.oneof(fc.constant(undefined), ...fields.map((field) => this.value(field, [], depth).map((value) => ({ $case: field.localName, value }))));
  }

  private field(field: DescField, only: readonly string[], depth: number): Arbitrary {
    const isLeftOut = only.length > 0 && !only.some((path) => path === field.name || path.startsWith(`${field.name}.`));
    const most = isLeftOut || depth === 0 ? 0 : 3;
    const inner = only.filter((path) => path.startsWith(`${field.name}.`)).map((path) => path.slice(field.name.length + 1));
    if (field.fieldKind === 'list') return fc.array(most === 0 ? fc.constant(0) : this.value(field, inner, depth), { maxLength: most });
    if (field.fieldKind === 'map') return fc.dictionary(name, most === 0 ? fc.constant(0) : this.value(field, inner, depth), { maxKeys: most, noNullPrototype: true });
    const isOptional = field.fieldKind === 'message' || field.presence !== FeatureSet_FieldPresence.IMPLICIT;
    if (isOptional) return most === 0 ? fc.constant(undefined) : fc.option(this.value(field, inner, depth), { nil: undefined });
    if (isLeftOut) return fc.constant(field.enum || field.scalar !== ScalarType.STRING ? (field.scalar === ScalarType.BOOL ? false : 0) : '');
    return field.enum ? fc.oneof(fc.constant(0), this.value(field, inner, depth)) : this.value(field, inner, depth);
  }

  private value(field: DescField, only: readonly string[], depth: number): Arbitrary {
    const form = this.descriptors.jsonFormOf(field);
    if (field.message) return WELL_KNOWN[field.message.typeName] ?? this.of(field.message, form && form.only.length > 0 ? form.only : only, depth - 1);
    if (field.enum) return fc.constantFrom(...field.enum.values.map(({ number }) => number).filter((number) => number !== 0));
    return scalar(field.scalar as ScalarType);
  }

  // An empty list that is written means the flag.
  private withFlags(desc: DescMessage, message: Fields): Fields {
    for (const field of desc.fields) {
      const flag = desc.fields.find(({ name }) => name === this.descriptors.jsonFormOf(field)?.emptySets);
      if (flag && (message[field.localName] as unknown[]).length === 0) message[flag.localName] = true;
    }
    return message;
  }
}
