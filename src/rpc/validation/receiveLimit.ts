import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Descriptors, FieldRules } from '../descriptors';
import { FORMAT } from './strings';

// What a field may take whose rules name no greatest size.
const UNLIMITED_TEXT = 65_536;
const UNLIMITED_JSON = 65_536;
const UNLIMITED_ITEMS = 1000;

// `[1,1]` has two bytes for each number, as google.protobuf.Value it has eleven.
const WIRE_BYTES_PER_JSON_BYTE = 6;
const BYTES_PER_CHARACTER = 4;
// A name may come with white space around it; an entity tag and an identifier are shorter still.
const LONGEST_FORMATTED = 512;
// Tag and length of a field, or a number.
const OVERHEAD = 16;
// So that a text that is somewhat too long is still named by its path, not refused as a whole.
const MARGIN = 65_536;

// By its rules a list could be far larger than anyone may want it: the whole of one with JSON in it is held to 64 KiB of JSON elsewhere.
const LARGEST_LIST = 1_572_864;
const LARGEST_JSON_LIST = 524_288;

/** The greatest number of bytes that a message may have on the wire and still keep the field rules of its proto, generously. */
export function receiveLimit(desc: DescMessage, descriptors: Descriptors): number {
  return MARGIN + messageBytes(desc, descriptors, []);
}

function messageBytes(desc: DescMessage, descriptors: Descriptors, outer: readonly string[]): number {
  if (outer.includes(desc.typeName)) return LARGEST_LIST; // a type that holds itself
  const inside = [...outer, desc.typeName];
  return desc.members.reduce((sum, member) => {
    const sizes = (member.kind === 'oneof' ? member.fields : [member]).map((field) => fieldBytes(field, descriptors, inside));
    return sum + Math.max(...sizes);
  }, 0);
}

function fieldBytes(field: DescField, descriptors: Descriptors, outer: readonly string[]): number {
  const rules = descriptors.rulesOf(field);
  const one = OVERHEAD + valueBytes(field, rules, descriptors, outer);
  if (field.fieldKind !== 'list' && field.fieldKind !== 'map') return one;
  const key = field.fieldKind === 'map' ? LONGEST_FORMATTED * BYTES_PER_CHARACTER : 0;
  return Math.min((rules?.maxItems || UNLIMITED_ITEMS) * (one + key), holdsJson(field) ? LARGEST_JSON_LIST : LARGEST_LIST);
}

function valueBytes(field: DescField, rules: FieldRules | undefined, descriptors: Descriptors, outer: readonly string[]): number {
  if (field.message) {
    if (isJson(field.message)) return (rules?.maxBytes || UNLIMITED_JSON) * WIRE_BYTES_PER_JSON_BYTE;
    return Math.min(rules?.maxBytes || Infinity, messageBytes(field.message, descriptors, outer));
  }
  return field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES ? textBytes(rules) : OVERHEAD;
}

function textBytes(rules: FieldRules | undefined): number {
  if (rules?.maxBytes) return rules.maxBytes;
  if (rules?.maxLength) return rules.maxLength * BYTES_PER_CHARACTER;
  return rules && rules.format !== FORMAT.none ? LONGEST_FORMATTED * BYTES_PER_CHARACTER : UNLIMITED_TEXT;
}

function isJson({ typeName }: DescMessage): boolean {
  return ['google.protobuf.Struct', 'google.protobuf.Value', 'google.protobuf.ListValue'].includes(typeName);
}

function holdsJson({ message }: DescField): boolean {
  return message !== undefined && (isJson(message) || message.fields.some((field) => field.message !== undefined && isJson(field.message)));
}
