import type { Violation } from '../../kernel/errors';
import { pathTo, report } from './faults';
import type { FieldReader, Given, MessageReader } from './messageReader';

// A query: fields by their JSON names, a list by repeating its name, fields of messages behind a dot (`bucket.unit=hour`).

// Deeper names are no mistake that anybody makes.
const MOST_STEPS = 16;

/** What a query gives of one message. */
interface Level {
  readonly message: MessageReader;
  readonly given: Given;
  readonly inner: Map<FieldReader, Level>;
}

/** What stands for what: `body` of the HTTP route, and the fields that may stand beside one of `*`, by their names in the proto. */
export interface QueryPlace {
  readonly bodyRule: string;
  readonly besideBody: ReadonlySet<string>;
}

/** What a query gives of a request. */
export function readQuery(query: URLSearchParams, message: MessageReader, place: QueryPlace, out: Violation[]): Given {
  const texts = new Map<string, string[]>();
  for (const [name, text] of query) {
    const known = texts.get(name);
    if (known) known.push(text);
    else texts.set(name, [text]);
  }
  const top = levelOf(message);
  for (const [name, values] of texts) readName(name, values, top, place, out);
  return finished(top, '', out);
}

function readName(name: string, texts: readonly string[], top: Level, place: QueryPlace, out: Violation[]): void {
  const found = locate(name, top, out);
  if (!found) return;
  const { level, field, first } = found;
  const fault = placeFault(first, place) ?? formFault(field, texts.length);
  if (fault) return report(out, name, fault);
  const read = field.single?.fromText;
  if (!read) return;
  if (!field.isList) {
    const value = read(texts[0] as string, name, out);
    if (value !== undefined) level.given.set(field, value);
    return;
  }
  const values = texts.map((text, at) => read(text, `${name}[${at}]`, out));
  if (!values.includes(undefined)) level.given.set(field, values);
}

function placeFault({ name }: FieldReader, { bodyRule, besideBody }: QueryPlace): string | undefined {
  if (bodyRule === name) return 'is part of the body; leave it out of the query';
  return bodyRule === '*' && !besideBody.has(name) ? 'belongs into the body, not into the query' : undefined;
}

function formFault(field: FieldReader, count: number): string | undefined {
  if (!field.single) return field.inner ? `has fields of its own; give them as ${field.jsonName}.name=value` : 'cannot be given in a query';
  return count > 1 && !field.isList ? `is given ${count} times; give it once` : undefined;
}

/** The field that a name with dots means, and the one that the name begins with. */
function locate(name: string, top: Level, out: Violation[]): { level: Level; field: FieldReader; first: FieldReader } | undefined {
  const steps = name.split('.', MOST_STEPS + 1);
  const first = top.message.find(steps[0] as string);
  if (!first || steps.length > MOST_STEPS) {
    top.message.unknown(first ? name : (steps[0] as string), '', out);
    return undefined;
  }
  let level = top;
  let path = '';
  for (const [at, step] of steps.entries()) {
    const field = level.message.find(step);
    if (!field || (at < steps.length - 1 && !field.inner)) {
      if (field) report(out, pathTo('', name), `there is no such field; ${pathTo(path, step)} has none of its own`);
      else level.message.unknown(step, path, out);
      return undefined;
    }
    if (at === steps.length - 1) return { level, field, first };
    path = pathTo(path, step);
    level = innerLevel(level, field);
  }
  return undefined;
}

function innerLevel(level: Level, field: FieldReader): Level {
  const known = level.inner.get(field);
  if (known) return known;
  const made = levelOf(field.inner as MessageReader);
  level.inner.set(field, made);
  return made;
}

function levelOf(message: MessageReader): Level {
  return { message, given: new Map(), inner: new Map() };
}

function finished({ message, given, inner }: Level, path: string, out: Violation[]): Given {
  for (const [field, level] of inner) {
    const below = finished(level, pathTo(path, field.jsonName), out);
    if (below.size > 0) given.set(field, level.message.assembled(below));
  }
  message.checkOneofs(given, path, out);
  return given;
}
