/**
 * The engine's own functions, kept before the user's script can replace them. Whatever runs after that script uses these and syntax
 * only: no methods of values, no iteration, no destructuring of lists, no writing to lists, and no template texts, for which this
 * engine calls String.prototype.concat. So no script can cheat what reads it.
 */
export const stringify = JSON.stringify;
export const parse = JSON.parse;
export const Time = Date;
export const isArray = Array.isArray;
export const toText = String;
export const isInteger = Number.isInteger;
export const namesOf = Object.keys;

type Method = (this: unknown, ...values: never[]) => unknown;
const method = (owner: object, name: string): Method => Reflect.get(owner, name) as Method;
const getter = (owner: object, name: string | symbol): Method => Reflect.getOwnPropertyDescriptor(owner, name)?.get as Method;

const { apply } = Reflect;
const cutText = method(String.prototype, 'slice');
const tagOf = method(Object.prototype, 'toString');
const sourceOf = method(Function.prototype, 'toString');
const typedArray = Reflect.getPrototypeOf(Uint8Array.prototype) as object;
const typedArrayName = getter(typedArray, Symbol.toStringTag);
const typedArrayLength = getter(typedArray, 'length');
const subscribe = method(Promise.prototype, 'then');

/** The first `length` characters. */
export const cut = (text: string, length: number): string => apply(cutText, text, [0, length]);

/** The parts as one text. */
export function glue(...parts: readonly string[]): string {
  let text = '';
  for (let at = 0; at < parts.length; at += 1) text += parts[at];
  return text;
}

/** Whether a value really is a typed array, whatever it says of itself. */
export const isTypedArray = (value: unknown): value is Uint8Array => apply(typedArrayName, value, []) !== undefined;

/** Its true length. */
export const lengthOfTypedArray = (array: Uint8Array): number => apply(typedArrayLength, array, []) as number;

/** Whether a value calls itself an error, as the engine sees it. */
export const isError = (value: unknown): boolean => apply(tagOf, value, []) === '[object Error]';

/** Whether a function is a class, which cannot be called. */
export const isClass = (value: (...values: readonly never[]) => unknown): boolean => cut(apply(sourceOf, value, []) as string, 5) === 'class';

/** Calls back once a promise is settled. Throws what the script's own `constructor` of the promise throws, and if it is no promise. */
export function whenSettled(promise: unknown, kept: (value: unknown) => void, broken: (reason: unknown) => void): void {
  apply(subscribe, promise, [kept, broken]);
}
