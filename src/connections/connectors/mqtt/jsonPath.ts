import { type JsonValue, getValueAtPath } from '../../../kernel/jsonValue';

/** One segment of a path: captures the name of a member, or the index of a list item in brackets. */
const SEGMENT = /([^.[\]]+)|\[(0|[1-9]\d*)\]/g;

/** Returns the value at a path in the form of connector keys (`data.relays[0]`); undefined if there is none. */
export function getConnectorKeyValue(payload: unknown, path: string): unknown {
  return getValueAtPath(
    payload as JsonValue,
    [...path.matchAll(SEGMENT)].map(([, member, index]) => member ?? Number(index)),
  );
}
