/**
 * The engine's own functions, saved before the user's script can replace them. Code that runs after that script uses
 * only these and plain syntax: no methods of values, no iteration, no array destructuring, no writes to arrays, and no
 * template literals, for which this engine calls String.prototype.concat. So a script cannot change how its result is
 * read.
 */
export const stringify = JSON.stringify;
export const parse = JSON.parse;
export const OriginalDate = Date;
export const isArray = Array.isArray;
export const toText = String;
export const isInteger = Number.isInteger;
export const objectKeys = Object.keys;
export const defineProperty = Object.defineProperty;
export const OriginalError = Error;

type Method = (this: unknown, ...values: never[]) => unknown;

const getMethod = (owner: object, name: string): Method => Reflect.get(owner, name) as Method;
const getGetter = (owner: object, name: string | symbol): Method =>
  Reflect.getOwnPropertyDescriptor(owner, name)?.get as Method;
// The methods are called as `apply(method, thisValue, arguments)`, which does not look up anything in the value.
const { apply } = Reflect;
const stringIndexOf = getMethod(String.prototype, 'indexOf');
const stringSlice = getMethod(String.prototype, 'slice');
const objectToString = getMethod(Object.prototype, 'toString');
const functionToString = getMethod(Function.prototype, 'toString');
const typedArrayPrototype = Reflect.getPrototypeOf(Uint8Array.prototype) as object;
const typedArrayName = getGetter(typedArrayPrototype, Symbol.toStringTag);
const typedArrayLength = getGetter(typedArrayPrototype, 'length');
const promiseThen = getMethod(Promise.prototype, 'then');

/** Returns the first `length` characters. */
export const truncate = (text: string, length: number): string => apply(stringSlice, text, [0, length]);

/** Joins the parts to one string. */
export function concat(...parts: readonly string[]): string {
  let text = '';
  for (let index = 0; index < parts.length; index += 1) text += parts[index];
  return text;
}

/** Whether a value is a typed array for the engine. A script cannot imitate one. */
export const isTypedArray = (value: unknown): value is Uint8Array => apply(typedArrayName, value, []) !== undefined;

/** Returns the length that the engine knows, even if the script redefined `length`. */
export const getTypedArrayLength = (array: Uint8Array): number => apply(typedArrayLength, array, []) as number;

/** Whether Object.prototype.toString names a value an error. A script can imitate one with Symbol.toStringTag. */
export const isError = (value: unknown): boolean => apply(objectToString, value, []) === '[object Error]';

/** Returns the position of a text in another one, at or after `start`; -1 if it is not there. */
export const findText = (text: string, searched: string, start = 0): number =>
  apply(stringIndexOf, text, [searched, start]) as number;

/** Returns the source text of a function. */
export const getSource = (method: (...values: readonly never[]) => unknown): string =>
  apply(functionToString, method, []) as string;

/** Whether a function is a class, which cannot be called without `new`. */
export const isClass = (value: (...values: readonly never[]) => unknown): boolean =>
  truncate(getSource(value), 5) === 'class';

/**
 * Calls one of the callbacks when a promise is settled. Throws if the value is not a promise, and whatever the
 * `constructor` property of the promise throws, which the script can define.
 */
export function whenSettled(
  promise: unknown,
  onFulfilled: (value: unknown) => void,
  onRejected: (reason: unknown) => void,
): void {
  apply(promiseThen, promise, [onFulfilled, onRejected]);
}
