import { RE2JS, RE2JSException } from 're2js';

/** The longest text, in characters, that a pattern is held against: its cost grows with the text. */
export const LONGEST_MATCHED_TEXT = 1024;

// A pattern of 1000 characters can stand for many more by repeats inside repeats.
const LARGEST_PROGRAM = 2000;

/** Why a text is no pattern that can be used, as the end of a sentence about it; undefined when it is. */
export function patternProblem(pattern: string): string | undefined {
  try {
    const size = RE2JS.compile(pattern).programSize();
    return size > LARGEST_PROGRAM ? 'repeats too much; use smaller counts in {}' : undefined;
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    return `is not a regular expression in RE2 syntax (${error.message}); mend it, and do without look-around and back-references`;
  }
}

/** Whether a text of at most LONGEST_MATCHED_TEXT characters matches somewhere, in time linear in its length. The pattern must be free of problems. */
export function matchesPattern(pattern: string, text: string): boolean {
  return RE2JS.compile(pattern).matcher(text).find();
}
