import type { Violation } from '../../kernel/errors';
import type { FieldReader, MessageReader, ParsedFields } from './messageReader';
import { addViolation, joinPath } from './violations';

// A query sets fields by their JSON names, lists by repeating the name, and fields of messages after a dot
// (`bucket.unit=hour`).

// Bounds the work for a name; no valid name has more steps.
const MAX_PATH_STEPS = 16;

/** The fields of one message that a query sets. */
interface MessageLevel {
  readonly reader: MessageReader;
  readonly fields: ParsedFields;
  readonly innerLevels: Map<FieldReader, MessageLevel>;
}

/** Which fields a query may set. */
interface QueryRules {
  /** `body` of the HTTP route. */
  readonly bodyRule: string;
  /** The proto names of the fields that the query may set if the body is `*`. */
  readonly allowedWithBody: ReadonlySet<string>;
}

/** Reads the fields of a request from a query. Appends violations to `out`; invalid values stay unset. */
export function readQuery(
  query: URLSearchParams,
  message: MessageReader,
  rules: QueryRules,
  out: Violation[],
): ParsedFields {
  const textsByName = new Map<string, string[]>();
  for (const [name, text] of query) {
    const earlierTexts = textsByName.get(name);
    if (earlierTexts) earlierTexts.push(text);
    else textsByName.set(name, [text]);
  }
  const topLevel = createLevel(message);
  for (const [name, texts] of textsByName) readName(name, texts, topLevel, rules, out);
  return collectFields(topLevel, '', out);
}

/**
 * Reads all values that the query contains for one name, such as `bucket.unit`, and stores them in the level (the
 * message) that contains the field. Stores nothing if one of them is invalid.
 */
function readName(
  name: string,
  texts: readonly string[],
  topLevel: MessageLevel,
  rules: QueryRules,
  out: Violation[],
): void {
  const location = resolveField(name, topLevel, out);
  if (!location) return;
  const { level, field, topField } = location;
  const violation = findRuleViolation(topField, rules) ?? findShapeViolation(field, texts.length);
  if (violation) {
    addViolation(out, name, violation);
    return;
  }
  const read = field.singleValue?.fromText;
  if (!read) return;
  if (!field.isList) {
    const value = read(texts[0] as string, name, out);
    if (value !== undefined) level.fields.set(field, value);
    return;
  }
  const values = texts.map((text, index) => read(text, `${name}[${index}]`, out));
  if (!values.includes(undefined)) level.fields.set(field, values);
}

/** Returns why a field must not be in the query: its value comes from the body. Undefined: it may. */
function findRuleViolation({ name }: FieldReader, { bodyRule, allowedWithBody }: QueryRules): string | undefined {
  if (bodyRule === name) return 'is set by the body: remove it from the query';
  return bodyRule === '*' && !allowedWithBody.has(name) ? 'must be in the body, not in the query' : undefined;
}

/**
 * Returns why the values cannot set a field: a message without a field name, or several values for a field that is not
 * a list.
 */
function findShapeViolation(field: FieldReader, count: number): string | undefined {
  if (!field.singleValue)
    return field.messageReader
      ? `is an object: set its fields as ${field.jsonName}.name=value`
      : 'cannot be set in a query';
  return count > 1 && !field.isList ? `is set ${count} times: set it only once` : undefined;
}

/**
 * Resolves a dotted name, such as `bucket.unit`, to its field, the level (the message) that contains it, and the field
 * of its first step. Creates missing levels. Appends a violation if there is no such field.
 */
function resolveField(
  name: string,
  topLevel: MessageLevel,
  out: Violation[],
): { level: MessageLevel; field: FieldReader; topField: FieldReader } | undefined {
  const steps = name.split('.', MAX_PATH_STEPS + 1);
  const topField = topLevel.reader.findByJsonName(steps[0] as string);
  if (!topField || steps.length > MAX_PATH_STEPS) {
    topLevel.reader.addUnknownField(topField ? name : (steps[0] as string), '', out);
    return undefined;
  }
  let level = topLevel;
  let path = '';
  for (const [index, step] of steps.entries()) {
    const isLastStep = index === steps.length - 1;
    const field = level.reader.findByJsonName(step);
    if (!field) {
      level.reader.addUnknownField(step, path, out);
      return undefined;
    }
    if (isLastStep) return { level, field, topField };
    if (!field.messageReader) {
      addViolation(out, joinPath('', name), `unknown field; ${joinPath(path, step)} has no fields`);
      return undefined;
    }
    path = joinPath(path, step);
    level = getOrCreateInnerLevel(level, field);
  }
  return undefined; // not reached: there is at least one step, and the last one returns
}

/** Returns the level of the message that the field contains; creates it on first use. */
function getOrCreateInnerLevel(level: MessageLevel, field: FieldReader): MessageLevel {
  const existing = level.innerLevels.get(field);
  if (existing) return existing;
  const created = createLevel(field.messageReader as MessageReader);
  level.innerLevels.set(field, created);
  return created;
}

function createLevel(reader: MessageReader): MessageLevel {
  return { reader, fields: new Map(), innerLevels: new Map() };
}

/** Returns the fields of a level (a message), with the messages of its inner levels. Checks the oneofs of each. */
function collectFields({ reader, fields, innerLevels }: MessageLevel, path: string, out: Violation[]): ParsedFields {
  for (const [field, innerLevel] of innerLevels) {
    const innerFields = collectFields(innerLevel, joinPath(path, field.jsonName), out);
    if (innerFields.size > 0) fields.set(field, innerLevel.reader.createMessage(innerFields));
  }
  reader.checkOneofs(fields, path, out);
  return fields;
}
