import { RE2JS, RE2JSException } from 're2js';

/** The longest text, in characters, that a pattern is held against: its cost grows with the text. */
export const LONGEST_MATCHED_TEXT = 512;

// Steps of the compiled patterns times characters of the texts, for all patterns of one command: about 10 ms of a processor.
const MOST_WORK = 300_000;
const MOST_STEPS = Math.floor(MOST_WORK / LONGEST_MATCHED_TEXT);

// Each may come to hold up to 8 MB of what it learnt from its texts.
const MOST_COMPILED = 32;
const compiled = new Map<string, RE2JS>();

/** What the patterns of one command may cost together, so that no definition holds up the server when it is made or executed. */
export class PatternBudget {
  private left = MOST_WORK;

  /** Why a text is no pattern that can be used, as the end of a sentence about it; undefined when it is. `given` counts the characters of the values that stand beside it. */
  problem(pattern: string, given: number): string | undefined {
    if (this.left < 0) return 'stands beside patterns that cost too much; mend those first';
    if (unfolded(pattern) > 2 * MOST_STEPS) return repeatsTooMuch;
    try {
      const regex = RE2JS.compile(pattern);
      const steps = regex.programSize();
      if (steps > MOST_STEPS) return repeatsTooMuch;
      this.left -= steps * (LONGEST_MATCHED_TEXT + given);
      if (this.left >= 0) keep(pattern, regex);
      return this.left < 0 ? `costs too much together with the patterns before it (all patterns of a command may take ${MOST_STEPS} steps, this one takes ${steps}); use smaller counts in {}, fewer patterns, or fewer values beside them` : undefined;
    } catch (error) {
      if (!(error instanceof RE2JSException)) throw error;
      return `is not a regular expression in RE2 syntax (${error.message}); mend it, and do without look-around and back-references`;
    }
  }
}

const repeatsTooMuch = `repeats too much; use smaller counts in {}, so that it takes at most ${MOST_STEPS} steps`;

/** Whether a text of at most LONGEST_MATCHED_TEXT characters matches somewhere, in time linear in its length. The pattern must be free of problems. */
export function matchesPattern(pattern: string, text: string): boolean {
  return compiledOf(pattern).matcher(text).find();
}

function compiledOf(pattern: string): RE2JS {
  const regex = compiled.get(pattern) ?? RE2JS.compile(pattern);
  keep(pattern, regex);
  return regex;
}

/** The pattern used last stands last; the first makes room. */
function keep(pattern: string, regex: RE2JS): void {
  compiled.delete(pattern);
  compiled.set(pattern, regex);
  const [oldest] = compiled.keys();
  if (oldest !== undefined && compiled.size > MOST_COMPILED) compiled.delete(oldest);
}

const TOKEN = /\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|\((?:\?[^:)]*:?)?|[^]/gsu;

/** About how many steps a pattern unfolds to: compiling `x{1000}` many times over would take too long to find out. */
function unfolded(pattern: string): number {
  const outer: number[] = [];
  let sum = 0;
  let last = 0;
  for (const [token, least, most] of pattern.matchAll(TOKEN)) {
    if (token.startsWith('(')) {
      outer.push(sum);
      sum = 0;
    } else if (least !== undefined) {
      const more = last * (Math.max(Number(least), Number(most ?? 0), 1) - 1);
      sum += more;
      last += more;
    } else if (!'?*+'.includes(token)) {
      last = token === ')' ? sum : 1;
      sum = token === ')' ? sum + (outer.pop() ?? 0) : sum + 1;
    }
  }
  return outer.reduce((total, one) => total + one, sum);
}
