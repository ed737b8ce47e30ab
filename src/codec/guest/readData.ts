import { answered, beside, failed, lines, problem, wrong } from './answers';
import { cut, isArray, isTypedArray } from './intrinsics';
import { name } from './show';
import { writeJson } from './writeJson';

const AN_OBJECT = '; it must be an object, such as {temperature: 21.5}';

/** What a decoder of the new form gave back, as the JSON text of a GuestResult. Every value of the script's is read once. */
export function readDecoded(value: unknown): string {
  if (!isObject(value)) return wrongDecoded(name(value));
  const { errors, warnings, data } = value as Record<string, unknown>;
  const errorLines = lines(errors);
  const warningLines = lines(warnings);
  if (errorLines !== '[]') return failed(errorLines, warningLines);
  if (data === undefined) return wrong(warningLines, 'data is undefined', beside(value), AN_OBJECT);
  if (!isObject(data)) return wrong(warningLines, 'data is ', name(data), AN_OBJECT);
  return withData(data, warningLines);
}

/** The same when it gave back something else. */
export const wrongDecoded = (what: string): string => wrong('[]', 'the decoder returned ', what, '; it must return {data: {temperature: 21.5}}');

/** What a decoder of an older form gave back: the data itself. */
export function readData(value: unknown): string {
  return isObject(value) ? withData(value, '[]') : wrongData(name(value));
}

/** The same when it gave back something else. */
export const wrongData = (what: string): string => wrong('[]', 'the decoder returned ', what, '; it must return an object, such as {temperature: 21.5}');

function withData(data: object, warnings: string): string {
  const { text, refusal } = writeJson(data);
  if (refusal) return problem(refusal.code, warnings, refusal.message);
  // What has a toJSON, such as a Date, may be something else as JSON.
  if (text === undefined || cut(text, 1) !== '{') return wrong(warnings, 'data written as JSON is ', text === undefined ? 'nothing' : cut(text, 40), AN_OBJECT);
  return answered(text, warnings);
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null && !isArray(value) && !isTypedArray(value);
