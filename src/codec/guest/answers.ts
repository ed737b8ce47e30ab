import type { GuestProblem } from '../guestWords';
import { glue, isArray, namesOf, stringify } from './intrinsics';
import { show } from './show';

const MOST_LINES = 100;
const LINE_LENGTH = 1000;
const MOST_NAMES = 5;

/** The JSON text of a GuestResult with an answer, which is JSON text itself. */
export const answered = (answer: string, warnings: string): string => glue('{"answer":', answer, ',"warnings":', warnings, '}');

/** The same with the script's own errors. */
export const failed = (errors: string, warnings: string): string => glue('{"errors":', errors, ',"warnings":', warnings, '}');

/** The same with a problem. */
export const problem = (code: GuestProblem['code'], warnings: string, message: string): string =>
  glue('{"problem":{"code":"', code, '","message":', stringify(message), '},"warnings":', warnings, '}');

/** The same with a wrong value: what it is of, what is there, and what would be right. */
export const wrong = (warnings: string, what: string, found: string, right: string): string => problem('bad_output', warnings, glue(what, found, right));

/** The members that are there instead of the one that is missing. */
export function beside(value: object): string {
  const names = namesOf(value);
  let text = '';
  for (let at = 0; at < names.length && at < MOST_NAMES; at += 1) text += glue(at === 0 ? '' : ', ', show(names[at], 40));
  if (text === '') return '';
  return glue(' (there is ', text, names.length > MOST_NAMES ? ', ...)' : ')');
}

/** `errors` or `warnings` as the JSON text of a list of texts: a list, or one value that stands for itself. What is empty counts as nothing. */
export function lines(value: unknown): string {
  if (value === undefined || value === null || value === false) return '[]';
  if (isArray(value)) return linesOfList(value);
  const line = show(value, LINE_LENGTH);
  return line === '' || line === '{}' ? '[]' : glue('[', stringify(line), ']');
}

function linesOfList(list: readonly unknown[]): string {
  const { length } = list; // of a Proxy it may be anything
  let text = '';
  for (let at = 0; at < length && at < MOST_LINES; at += 1) {
    const line = show(list[at], LINE_LENGTH);
    if (line !== '') text += glue(text === '' ? '' : ',', stringify(line));
  }
  return glue('[', text, text !== '' && length > MOST_LINES ? ',"(the rest was cut)"]' : ']');
}
