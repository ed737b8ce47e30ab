import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';
import { ScalarType, type DescField, type DescMessage } from '@bufbuild/protobuf';
import type { Violation } from '../../kernel/errors';
import type { Descriptors, FieldRules } from '../descriptors';
import { hasPlainKeys } from './json';
import { enumCheck, scalarCheck, wellKnownCheck, type ValueCheck } from './scalars';
import { characters, FORMAT, textFault } from './strings';

/** Adds what is wrong with a message that ts-proto decoded; trims names in place. `prefix` is empty or ends with a dot. */
export type MessageCheck = (message: Fields, prefix: string, out: Violation[]) => void;

type Fields = Record<string, unknown>;
type FieldCheck = (message: Fields, prefix: string, out: Violation[]) => void;

/** Compiles the field rules of the protos (`plantroom.v1.rules`) into checks, once per message type. */
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
    if (field.fieldKind === 'list') return listField(field, rules, this.item(field, rules));
    if (field.fieldKind === 'map') return mapField(field, rules, this.item(field, rules));
    return singularField(field, key, rules, this.item(field, rules));
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

function singularField(field: DescField, key: string, rules: FieldRules | undefined, check: ValueCheck | undefined): FieldCheck | undefined {
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
    check?.(value, prefix + jsonName, out);
  };
}

// Numbers and booleans have no empty value: 0 and false are values like any other.
function isEmpty(value: unknown, field: DescField): boolean {
  if (typeof value === 'string') return value === '';
  return field.fieldKind === 'enum' ? value === 0 : field.scalar === ScalarType.BYTES && (value as Uint8Array).length === 0;
}

function listField(field: DescField, rules: FieldRules | undefined, check: ValueCheck | undefined): FieldCheck {
  const { localName: key, jsonName } = field;
  const trimmed = rules?.format === FORMAT.name;
  return (message, prefix, out) => {
    const items = message[key] as unknown[];
    if (counted(items.length, rules, prefix + jsonName, out)) return;
    if (trimmed) message[key] = items.map((item) => (item as string).trim());
    const seen = rules?.unique ? new Set<unknown>() : undefined;
    for (const [at, item] of (message[key] as unknown[]).entries()) {
      check?.(item, `${prefix}${jsonName}[${at}]`, out);
      if (seen?.has(item)) out.push({ field: `${prefix}${jsonName}[${at}]`, description: 'stands in the list twice; give it once' });
      seen?.add(item);
    }
  };
}

function mapField(field: DescField, rules: FieldRules | undefined, check: ValueCheck | undefined): FieldCheck {
  const { localName: key, jsonName } = field;
  return (message, prefix, out) => {
    const entries = message[key] as Fields;
    if (!hasPlainKeys(entries)) out.push({ field: prefix + jsonName, description: 'holds the key `__proto__`; choose another name' });
    const names = Object.keys(entries);
    if (counted(names.length, rules, prefix + jsonName, out)) return;
    for (const name of names) {
      const fault = textFault(name) ?? (characters(name) > 255 ? 'is longer than 255 characters' : undefined);
      if (fault) out.push({ field: prefix + jsonName, description: `has a key that ${fault}` });
      else check?.(entries[name], `${prefix}${jsonName}.${name}`, out);
    }
  };
}

/** Whether the number of items is wrong; then the items are not looked at. */
function counted(count: number, rules: FieldRules | undefined, path: string, out: Violation[]): boolean {
  if (rules?.required && count === 0) out.push({ field: path, description: 'is required; give at least one' });
  const tooMany = rules !== undefined && rules.maxItems > 0 && count > rules.maxItems;
  if (tooMany) out.push({ field: path, description: `holds ${count} items; at most ${rules.maxItems} are allowed` });
  return tooMany;
}
