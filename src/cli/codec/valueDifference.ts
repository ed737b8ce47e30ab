import { isJsonObject, type JsonObject, type JsonValue } from '../../kernel/jsonValue';
import { plainText } from '../plainText';

const NAME = /^[A-Za-z_$][\w$]*$/;
/** Numbers that are no further apart, seen from the greater, differ by the rounding of a float; it is told, and they differ all the same. */
const ROUNDING = 1e-6;

/** The first difference between two values, named by its path; undefined: there is none. A member that is null may be absent, for scripts leave `undefined` behind where it stood. */
export function valueDifference(path: string, expected: JsonValue, got: JsonValue | undefined): string | undefined {
  if (expected === got || (expected === null && got === undefined)) return undefined;
  if (isList(expected) && isList(got)) return listDifference(path, expected, got);
  if (isJsonObject(expected) && got !== undefined && isJsonObject(got)) return memberDifference(path, expected, got);
  return `${path}: expected ${shown(expected)}, got ${shown(got)}${byRounding(expected, got) ? ' (only by rounding)' : ''}`;
}

function listDifference(path: string, expected: readonly JsonValue[], got: readonly JsonValue[]): string | undefined {
  for (const [at, value] of expected.slice(0, got.length).entries()) {
    const difference = valueDifference(`${path}[${at}]`, value, got[at]);
    if (difference !== undefined) return difference;
  }
  return expected.length === got.length ? undefined : `${path}: expected ${items(expected)}, got ${items(got)}`;
}

function memberDifference(path: string, expected: JsonObject, got: JsonObject): string | undefined {
  for (const [name, value] of Object.entries(expected)) {
    const difference = valueDifference(member(path, name), value, Object.hasOwn(got, name) ? got[name] : undefined);
    if (difference !== undefined) return difference;
  }
  const more = Object.keys(got).find((name) => !Object.hasOwn(expected, name));
  return more === undefined ? undefined : `${member(path, more)}: none expected, got ${shown(got[more])}`;
}

function byRounding(expected: JsonValue, got: JsonValue | undefined): boolean {
  return typeof expected === 'number' && typeof got === 'number' && Math.abs(expected - got) <= ROUNDING * Math.max(Math.abs(expected), Math.abs(got));
}

const isList = (value: JsonValue | undefined): value is readonly JsonValue[] => Array.isArray(value);
const items = ({ length }: readonly unknown[]): string => `${length} ${length === 1 ? 'item' : 'items'}`;
const member = (path: string, name: string): string => (NAME.test(name) ? `${path}.${name}` : `${path}[${shown(name)}]`);
const shown = (value: JsonValue | undefined): string => (value === undefined ? 'none' : plainText(JSON.stringify(value), 100));
