const SEGMENT = /([^.[\]]+)|\[(\d+)\]/g;

/** What a path as connector keys have them (`data.relays[0]`) leads to; undefined: nothing is there. */
export function valueAt(payload: unknown, path: string): unknown {
  let value = payload;
  for (const [, member, index] of path.matchAll(SEGMENT)) {
    const key = member ?? index ?? '';
    if (typeof value !== 'object' || value === null || Array.isArray(value) !== (index !== undefined) || !Object.hasOwn(value, key)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[key];
  }
  return value;
}
