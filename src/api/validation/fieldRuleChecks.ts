import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import { normalizeId } from '../../kernel/ids';
import type { Descriptors, FieldRules } from '../descriptors/descriptors';
import { hasPlainKeys } from './json';
import { createEnumCheck, createScalarCheck, createWellKnownCheck, type ValueCheck } from './scalars';
import { countCharacters, findUnicodeViolation, FORMAT } from './strings';
import { addTruncation, type ContainedValueCheck } from './truncateInvalid';

/**
 * Appends the violations of a message that ts-proto decoded to `out`. Trims names, normalizes ids and truncates invalid
 * values in place. `prefix` is empty or ends with a dot.
 */
type MessageCheck = (message: Fields, prefix: string, out: Violation[]) => void;

type Fields = Record<string, unknown>;
type FieldCheck = (message: Fields, prefix: string, out: Violation[]) => void;

/** Compiles the field rules of the protos (`plantroom.v1.rules`) into checks, once per message type, on first use. */
export class FieldRuleChecks {
  private readonly checkByType = new Map<string, MessageCheck>();

  constructor(private readonly descriptors: Descriptors) {}

  /** Returns the check of a message type. */
  getCheck(desc: DescMessage): MessageCheck {
    const existing = this.checkByType.get(desc.typeName);
    if (existing) return existing;
    const fieldChecks: FieldCheck[] = [];
    const check: MessageCheck = (message, prefix, out) => {
      for (const checkField of fieldChecks) checkField(message, prefix, out);
    };
    this.checkByType.set(desc.typeName, check); // registered before its fields, because a type may contain itself
    fieldChecks.push(
      ...desc.members
        .map((member) =>
          member.kind === 'oneof'
            ? this.createOneofCheck(member.localName, member.fields)
            : this.createFieldCheck(member),
        )
        .filter((fieldCheck) => fieldCheck !== undefined),
    );
    return check;
  }

  /**
   * Creates the check of a field; undefined if every value is valid or the handler checks the field. `key`: the
   * property of the value, which differs from the field name in a oneof.
   */
  private createFieldCheck(field: DescField, key: string = field.localName): FieldCheck | undefined {
    const rules = this.descriptors.getRules(field);
    if (rules?.checkedByHandler) return undefined;
    // An invalid value is truncated in place, in a list or map each item, so that handlers may inspect it.
    const itemCheck = addTruncation(field, rules, this.createItemCheck(field, rules));
    if (field.fieldKind === 'list') return createListCheck(field, rules, itemCheck);
    return field.fieldKind === 'map'
      ? createMapCheck(field, rules, itemCheck)
      : createSingularCheck(field, key, rules, itemCheck);
  }

  /** Creates the check of a oneof, which ts-proto represents as `{ $case, value }`; only the set case is checked. */
  private createOneofCheck(key: string, fields: readonly DescField[]): FieldCheck {
    const checkByCase = new Map(fields.map((field) => [field.localName, this.createFieldCheck(field, 'value')]));
    return (message, prefix, out) => {
      const chosen = message[key] as { $case: string; value: unknown } | undefined;
      if (chosen) checkByCase.get(chosen.$case)?.(chosen, prefix, out);
    };
  }

  /** Creates the check of one value: of the field itself, or of an item of its list or map. */
  private createItemCheck(field: DescField, rules: FieldRules | undefined): ValueCheck | undefined {
    if (field.message) {
      const wellKnown = createWellKnownCheck(field.message, rules);
      if (wellKnown) return wellKnown;
      const check = this.getCheck(field.message);
      return (value, path, out) => check(value as Fields, `${path}.`, out);
    }
    return field.enum ? createEnumCheck(field.enum) : createScalarCheck(field.scalar, rules);
  }
}

/**
 * Creates the check of a field with one value; undefined if there is nothing to check. An unset value is only checked
 * for `required`. `key`: the property of the value in the message. A name or an id is normalized in place first.
 */
function createSingularCheck(
  field: DescField,
  key: string,
  rules: FieldRules | undefined,
  check: ContainedValueCheck | undefined,
): FieldCheck | undefined {
  const { jsonName } = field;
  const isExplicit = field.presence === FeatureSet_FieldPresence.EXPLICIT;
  const isRequired = rules?.required ?? false;
  const normalize = findNormalization(rules);
  if (!check && !isRequired) return undefined;
  return (message, prefix, out) => {
    if (normalize && typeof message[key] === 'string') message[key] = normalize(message[key]);
    const value = message[key];
    // The encoding of a field with explicit presence distinguishes an empty value from an unset one, so an empty value
    // counts as set there, unless the field is required.
    const canBeEmpty = isExplicit && !isRequired;
    const isUnset = value === undefined || (!canBeEmpty && isEmpty(value, field));
    if (isUnset) {
      if (isRequired) out.push({ field: prefix + jsonName, description: 'is required: set a value' });
      return;
    }
    check?.(message, key, prefix + jsonName, out);
  };
}

/** Returns how strings are normalized before they are checked: names are trimmed, ids of the server get lower case. */
function findNormalization(rules: FieldRules | undefined): ((text: string) => string) | undefined {
  if (rules?.format === FORMAT.name) return (text) => text.trim();
  return rules?.format === FORMAT.id && !rules.callerAssigned ? normalizeId : undefined;
}

/** Whether a value counts as unset. Numbers and booleans have no empty value: 0 and false count as set. */
function isEmpty(value: unknown, field: DescField): boolean {
  if (typeof value === 'string') return value === '';
  return field.fieldKind === 'enum'
    ? value === 0
    : field.scalar === ScalarType.BYTES && (value as Uint8Array).length === 0;
}

/**
 * Creates the check of a list. Only the allowed number of items is checked and kept, so that an invalid list takes no
 * longer than a valid one.
 */
function createListCheck(
  field: DescField,
  rules: FieldRules | undefined,
  check: ContainedValueCheck | undefined,
): FieldCheck {
  const { localName: key, jsonName } = field;
  const normalize = findNormalization(rules);
  return (message, prefix, out) => {
    const values = message[key] as unknown[];
    const hasTooMany = rejectItemCount(values.length, rules, prefix + jsonName, out);
    const items = limitAndNormalize(values, hasTooMany ? rules?.maxItems : undefined, normalize);
    message[key] = items;
    const seenItems = rules?.unique ? new Set<unknown>() : undefined;
    for (const [index, item] of items.entries()) {
      check?.(items as unknown as Record<number, unknown>, index, `${prefix}${jsonName}[${index}]`, out);
      if (seenItems?.has(item))
        out.push({ field: `${prefix}${jsonName}[${index}]`, description: 'is a duplicate: list each value only once' });
      seenItems?.add(item);
    }
  };
}

/** Returns at most `maxItems` values (undefined: all), normalized. */
function limitAndNormalize(
  values: unknown[],
  maxItems: number | undefined,
  normalize: ((text: string) => string) | undefined,
): unknown[] {
  const items = maxItems === undefined ? values : values.slice(0, maxItems);
  return normalize ? items.map((item) => normalize(item as string)) : items;
}

/** The maximum number of characters of a key in a map. */
const MAX_KEY_LENGTH = 255;

/**
 * Creates the check of a map: its number of entries, its keys and its values. Only the allowed number of entries is
 * kept.
 */
function createMapCheck(
  field: DescField,
  rules: FieldRules | undefined,
  check: ContainedValueCheck | undefined,
): FieldCheck {
  const { localName: key, jsonName } = field;
  return (message, prefix, out) => {
    let entries = message[key] as Fields;
    if (!hasPlainKeys(entries))
      out.push({ field: prefix + jsonName, description: 'contains the key `__proto__`: use another name' });
    let names = Object.keys(entries);
    if (rejectItemCount(names.length, rules, prefix + jsonName, out)) {
      names = names.slice(0, rules?.maxItems);
      entries = message[key] = Object.fromEntries(names.map((name) => [name, entries[name]]));
    }
    for (const name of names) {
      const violation =
        findUnicodeViolation(name) ??
        (countCharacters(name) > MAX_KEY_LENGTH
          ? `is longer than ${MAX_KEY_LENGTH} characters: use a shorter one`
          : undefined);
      if (violation) out.push({ field: prefix + jsonName, description: `has a key that ${violation}` });
      else check?.(entries, name, `${prefix}${jsonName}.${name}`, out);
    }
  };
}

/**
 * Appends a violation if there are too many items, or none although one is required. Returns whether there are too
 * many; the caller then checks only the allowed number of them.
 */
function rejectItemCount(count: number, rules: FieldRules | undefined, path: string, out: Violation[]): boolean {
  if (rules?.required && count === 0) out.push({ field: path, description: 'is required: set at least one item' });
  const hasTooMany = rules !== undefined && rules.maxItems > 0 && count > rules.maxItems;
  if (hasTooMany) out.push({ field: path, description: `has ${count} items: at most ${rules.maxItems} are allowed` });
  return hasTooMany;
}
