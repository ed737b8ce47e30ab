/** The JSON types of the specification's tables, and how they nest. `exact`: no other field may come; `atLeast`: others may. A name that ends in `?` may be missing. */
export type Shape = 'string' | 'time' | 'integer' | 'number' | 'boolean' | 'object' | 'any' | { readonly orNull: Shape } | { readonly list: Shape } | { readonly exact: Fields } | { readonly atLeast: Fields };

/** Fields of an object. */
export type Fields = Readonly<Record<string, Shape>>;

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/;

const SCALARS: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  time: (value) => typeof value === 'string' && TIME.test(value),
  integer: (value) => Number.isSafeInteger(value),
  number: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
  object: isObject,
  any: (value) => value !== undefined,
};

/** Where a value is not of the shape, in words; empty: nowhere. */
export function misfits(value: unknown, shape: Shape, path = '$'): string[] {
  if (typeof shape === 'string') return SCALARS[shape]?.(value) ? [] : [`${path} is no ${shape}: ${JSON.stringify(value)}`];
  if ('orNull' in shape) return value === null ? [] : misfits(value, shape.orNull, path);
  if ('list' in shape) return ofList(value, shape.list, path);
  return 'exact' in shape ? ofObject(value, shape.exact, true, path) : ofObject(value, shape.atLeast, false, path);
}

function ofList(value: unknown, shape: Shape, path: string): string[] {
  return Array.isArray(value) ? value.flatMap((item, at) => misfits(item, shape, `${path}[${at}]`)) : [`${path} is no list: ${JSON.stringify(value)}`];
}

function ofObject(value: unknown, fields: Fields, isExact: boolean, path: string): string[] {
  if (!isObject(value)) return [`${path} is no object: ${JSON.stringify(value)}`];
  const known = new Map(Object.entries(fields).map(([name, shape]) => [name.replace('?', ''), { shape, isOptional: name.endsWith('?') }]));
  const extra = isExact ? Object.keys(value).filter((name) => !known.has(name)) : [];
  const wrong = [...known].flatMap(([name, { shape, isOptional }]) => {
    if (!(name in value)) return isOptional ? [] : [`${path}.${name} is missing`];
    return misfits(value[name], shape, `${path}.${name}`);
  });
  return [...extra.map((name) => `${path}.${name} is not in the specification`), ...wrong];
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
