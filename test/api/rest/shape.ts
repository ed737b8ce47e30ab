/**
 * The JSON types of the tables in the specification, and how they nest. `exact` allows no other field; `atLeast` allows
 * others. A name that ends in `?` is optional.
 */
export type Shape =
  | 'string'
  | 'time'
  | 'integer'
  | 'number'
  | 'boolean'
  | 'object'
  | 'any'
  | { readonly nullable: Shape }
  | { readonly list: Shape }
  | { readonly exact: Fields }
  | { readonly atLeast: Fields };

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

/** Describes where a value does not match the shape; empty if it matches. */
export function misfits(value: unknown, shape: Shape, path = '$'): string[] {
  if (typeof shape === 'string')
    return SCALARS[shape]?.(value) ? [] : [`${path} is no ${shape}: ${JSON.stringify(value)}`];
  if ('nullable' in shape) return value === null ? [] : misfits(value, shape.nullable, path);
  if ('list' in shape) return checkList(value, shape.list, path);
  return 'exact' in shape
    ? checkObject(value, shape.exact, true, path)
    : checkObject(value, shape.atLeast, false, path);
}

function checkList(value: unknown, shape: Shape, path: string): string[] {
  return Array.isArray(value)
    ? value.flatMap((item, at) => misfits(item, shape, `${path}[${at}]`))
    : [`${path} is no list: ${JSON.stringify(value)}`];
}

function checkObject(value: unknown, fields: Fields, isExact: boolean, path: string): string[] {
  if (!isObject(value)) return [`${path} is no object: ${JSON.stringify(value)}`];
  const known = new Map(
    Object.entries(fields).map(([name, shape]) => [name.replace('?', ''), { shape, isOptional: name.endsWith('?') }]),
  );
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
