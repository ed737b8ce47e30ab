/** A mutable JSON object. */
export type JsonObject = Record<string, unknown>;

/** A JSON Schema (2020-12, the dialect of OpenAPI 3.1). */
export type Schema = JsonObject;

/** Returns an object without the fields that are undefined or an empty string. */
export function compact(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== ''));
}

/** Returns the reference to a component. */
export function ref(kind: 'schemas' | 'parameters' | 'responses' | 'headers', name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` };
}
