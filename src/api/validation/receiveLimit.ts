import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Descriptors, FieldRules } from '../descriptors/descriptors';
import { FORMAT } from './strings';

// Limits of fields whose rules set no maximum.
const DEFAULT_MAX_TEXT_BYTES = 65_536;
const DEFAULT_MAX_JSON_BYTES = 65_536;
const DEFAULT_MAX_ITEMS = 1000;

// A number in `[1,1]` takes two bytes of JSON, and eleven bytes as google.protobuf.Value.
const WIRE_BYTES_PER_JSON_BYTE = 6;
const MAX_BYTES_PER_CHARACTER = 4; // in UTF-8
// A string with a format (name, id or entity tag) has at most 255 characters, and the key of a map, which is the name
// of a parameter, fewer. Twice as many are allowed here, because a name may be surrounded by white space.
const MAX_NAME_BYTES = 512 * MAX_BYTES_PER_CHARACTER;
// The tag and length of a field, or a number.
const FIELD_OVERHEAD_BYTES = 16;
// With this margin, a string that is slightly too long is reported with its path instead of rejecting the whole
// message.
const MARGIN_BYTES = 65_536;

// The maximum size of a list with all of its items: the rules alone would allow lists of an impractical size.
const MAX_LIST_BYTES = 1_572_864;
// The same for a list or map that contains JSON. The only large one has the parameters of a command, of which the
// handler accepts 64 KiB as JSON text; in a message they have less than eight times as many bytes.
const MAX_JSON_LIST_BYTES = 524_288;

/** Computes a generous upper bound of the encoded size, in bytes, of a message that satisfies the field rules. */
export function computeReceiveLimit(desc: DescMessage, descriptors: Descriptors): number {
  return MARGIN_BYTES + getMaxMessageBytes(desc, descriptors, []);
}

/**
 * Returns the maximum size of a message: the sum of its fields, and for a oneof that of its largest case. `outerTypes`:
 * the names of the message types in which this one is nested, to detect a type that contains itself.
 */
function getMaxMessageBytes(desc: DescMessage, descriptors: Descriptors, outerTypes: readonly string[]): number {
  if (outerTypes.includes(desc.typeName)) return MAX_LIST_BYTES; // contains itself, so its fields have no sum
  const typesSoFar = [...outerTypes, desc.typeName];
  return desc.members.reduce((sum, member) => {
    const alternatives = member.kind === 'oneof' ? member.fields : [member];
    const sizes = alternatives.map((field) => getMaxFieldBytes(field, descriptors, typesSoFar));
    return sum + Math.max(...sizes);
  }, 0);
}

/** Returns the maximum size of a field: of its value, or of all items of its list or map. */
function getMaxFieldBytes(field: DescField, descriptors: Descriptors, outerTypes: readonly string[]): number {
  const rules = descriptors.getRules(field);
  const itemBytes = FIELD_OVERHEAD_BYTES + getMaxValueBytes(field, rules, descriptors, outerTypes);
  if (field.fieldKind !== 'list' && field.fieldKind !== 'map') return itemBytes;
  const keyBytes = field.fieldKind === 'map' ? MAX_NAME_BYTES : 0;
  return Math.min(
    (rules?.maxItems || DEFAULT_MAX_ITEMS) * (itemBytes + keyBytes),
    containsJson(field) ? MAX_JSON_LIST_BYTES : MAX_LIST_BYTES,
  );
}

/** Returns the maximum size of one value of a field. */
function getMaxValueBytes(
  field: DescField,
  rules: FieldRules | undefined,
  descriptors: Descriptors,
  outerTypes: readonly string[],
): number {
  if (field.message) {
    if (isJson(field.message)) return (rules?.maxBytes || DEFAULT_MAX_JSON_BYTES) * WIRE_BYTES_PER_JSON_BYTE;
    return Math.min(rules?.maxBytes || Infinity, getMaxMessageBytes(field.message, descriptors, outerTypes));
  }
  return field.scalar === ScalarType.STRING || field.scalar === ScalarType.BYTES
    ? getMaxTextBytes(rules)
    : FIELD_OVERHEAD_BYTES;
}

/** Returns the maximum size of a string or of bytes. A maximum of 0 in the rules means none. */
function getMaxTextBytes(rules: FieldRules | undefined): number {
  if (rules?.maxBytes) return rules.maxBytes;
  if (rules?.maxLength) return rules.maxLength * MAX_BYTES_PER_CHARACTER;
  return rules && rules.format !== FORMAT.none ? MAX_NAME_BYTES : DEFAULT_MAX_TEXT_BYTES;
}

function isJson({ typeName }: DescMessage): boolean {
  return ['google.protobuf.Struct', 'google.protobuf.Value', 'google.protobuf.ListValue'].includes(typeName);
}

/** Whether the values of a field are arbitrary JSON (a Struct, for example), or messages with such a field. */
function containsJson({ message }: DescField): boolean {
  return (
    message !== undefined &&
    (isJson(message) || message.fields.some((field) => field.message !== undefined && isJson(field.message)))
  );
}
