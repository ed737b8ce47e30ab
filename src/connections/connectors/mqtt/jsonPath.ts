import { type JsonValue, valueAt } from '../../../kernel/jsonValue';

const SEGMENT = /([^.[\]]+)|\[(0|[1-9]\d*)\]/g;

/** What a path as connector keys have them (`data.relays[0]`) leads to; undefined: nothing is there. */
export function valueAtPath(payload: unknown, path: string): unknown {
  return valueAt(payload as JsonValue, [...path.matchAll(SEGMENT)].map(([, member, index]) => member ?? Number(index)));
}
