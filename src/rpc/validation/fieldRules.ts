import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import type { Descriptors, FieldRules } from '../descriptors';
import { cutting, type HeldCheck } from './cutToSize';
import { hasPlainKeys } from './json';
import { enumCheck, scalarCheck, wellKnownCheck, type ValueCheck } from './scalars';
import { characters, FORMAT, textFault } from './strings';

/** Adds what is wrong with a message that ts-proto decoded; trims names in place, and cuts what is too large to size. `prefix` is empty or ends with a dot. */
export type MessageCheck = (message: Fields, prefix: string, out: Violation[]) => void;

type Fields = Record<string, unknown>;
type FieldCheck = (message: Fields, prefix: string, out: Violation[]) => void;

/** Compiles the field rules of the protos (`plantroom.v1.rules`) into checks, once per message type, when it first comes. */
export class FieldRuleChecks {
  private readonly compiled = new Map<string, MessageCheck>();

  constructor(private readonly descriptors: Descriptors) {}

  /** The check of a message type. */
  of(desc: DescMessage): MessageCheck {
    const known = this.compiled.get(desc.typeName);
    if (known) return known;
    const fields: FieldCheck[] = [];
    const check: MessageCheck = (message, prefix, out) => {
      for (const field of fields) field(message, prefix, out);
    };
    this.compiled.set(desc.typeName, check); // before its fields: a type may hold itself
    fields.push(...desc.members.map((member) => (member.kind === 'oneof' ? this.oneof(member.localName, member.fields) : this.field(member))).filter((one) => one !== undefined));
    return check;
  }

  /** All that is wrong with a message. */
  violations(desc: DescMessage, message: unknown): Violation[] {
    const out: Violation[] = [];
    this.of(desc)(message as Fields, '', out);
    return out;
  }

  private field(field: DescField, key: string = field.localName): FieldCheck | undefined {
    const rules = this.descriptors.rulesOf(field);
    if (rules?.checkedByHandler) return undefined;
    const check = cutting(field, rules, this.item(field, rules));
    if (field.fieldKind === 'list') return listField(field, rules, check);
    return field.fieldKind === 'map' ? mapField(field, rules, check) : singularField(field, key, rules, check);
  }

  // ts-proto writes a oneof as `{ $case, value }`.
  private oneof(key: string, fields: readonly DescField[]): FieldCheck {
    const cases = new Map(fields.map((field) => [field.localName, this.field(field, 'value')]));
    return (message, prefix, out) => {
      const chosen = message[key] as { $case: string; value: unknown } | undefined;
      if (chosen) cases.get(chosen.$case)?.(chosen, prefix, out);
    };
  }

  /** The check of one value: of the field itself, or of an item of its list or map. */
  private item(field: DescField, rules: FieldRules | undefined): ValueCheck | undefined {
    if (field.message) {
      const wellKnown = wellKnownCheck(field.message, rules);
      if (wellKnown) return wellKnown;
      const check = this.of(field.message);
      return (value, path, out) => check(value as Fields, `${path}.`, out);
    }
    return field.enum ? enumCheck(field.enum) : scalarCheck(field.scalar, rules);
  }
}

function singularField(field: DescField, key: string, rules: FieldRules | undefined, check: HeldCheck | undefined): FieldCheck | undefined {
  const { jsonName } = field;
  const explicit = field.presence === FeatureSet_FieldPresence.EXPLICIT;
  const required = rules?.required ?? false;
  const trimmed = rules?.format === FORMAT.name;
  if (!check && !required) return undefined;
  return (message, prefix, out) => {
    if (trimmed && typeof message[key] === 'string') message[key] = message[key].trim();
    const value = message[key];
    if (value === undefined || ((required || !explicit) && isEmpty(value, field))) {
      if (required) out.push({ field: prefix + jsonName, description: 'is required; give a value' });
      return;
    }
    check?.(message, key, prefix + jsonName, out);
  };
}

// Numbers and booleans have no empty value: 0 and false are values like any other.
function isEmpty(value: unknown, field: DescField): boolean {
  if (typeof value === 'string') return value === '';
  return field.fieldKind === 'enum' ? value === 0 : field.scalar === ScalarType.BYTES && (value as Uint8Array).length === 0;
}

function listField(field: DescField, rules: FieldRules | undefined, check: HeldCheck | undefined): FieldCheck {
  const { localName: key, jsonName } = field;
  const trimmed = rules?.format === FORMAT.name;
  return (message, prefix, out) => {
    const given = message[key] as unknown[];
    const tooMany = counted(given.length, rules, prefix + jsonName, out);
    const items = itemsOf(given, tooMany ? rules?.maxItems : undefined, trimmed);
    message[key] = items;
    const seen = rules?.unique ? new Set<unknown>() : undefined;
    for (const [at, item] of items.entries()) {
      check?.(items as unknown as Record<number, unknown>, at, `${prefix}${jsonName}[${at}]`, out);
      if (seen?.has(item)) out.push({ field: `${prefix}${jsonName}[${at}]`, description: 'stands in the list twice; give it once' });
      seen?.add(item);
    }
  };
}

function itemsOf(given: unknown[], most: number | undefined, trimmed: boolean): unknown[] {
  const items = most === undefined ? given : given.slice(0, most);
  return trimmed ? items.map((item) => (item as string).trim()) : items;
}

function mapField(field: DescField, rules: FieldRules | undefined, check: HeldCheck | undefined): FieldCheck {
  const { localName: key, jsonName } = field;
  return (message, prefix, out) => {
    let entries = message[key] as Fields;
    if (!hasPlainKeys(entries)) out.push({ field: prefix + jsonName, description: 'holds the key `__proto__`; choose another name' });
    let names = Object.keys(entries);
    if (counted(names.length, rules, prefix + jsonName, out)) {
      names = names.slice(0, rules?.maxItems);
      entries = message[key] = Object.fromEntries(names.map((name) => [name, entries[name]]));
    }
    for (const name of names) {
      const fault = textFault(name) ?? (characters(name) > 255 ? 'is longer than 255 characters' : undefined);
      if (fault) out.push({ field: prefix + jsonName, description: `has a key that ${fault}` });
      else check?.(entries, name, `${prefix}${jsonName}.${name}`, out);
    }
  };
}

/** Whether there are too many items; then only as many are looked at as there may be. */
function counted(count: number, rules: FieldRules | undefined, path: string, out: Violation[]): boolean {
  if (rules?.required && count === 0) out.push({ field: path, description: 'is required; give at least one' });
  const tooMany = rules !== undefined && rules.maxItems > 0 && count > rules.maxItems;
  if (tooMany) out.push({ field: path, description: `holds ${count} items; at most ${rules.maxItems} are allowed` });
  return tooMany;
}
