import { RE2JS, RE2JSException } from 're2js';

/**
 * The maximum length of a text that is matched against a pattern, in characters. The cost of a match grows with the
 * text.
 */
export const MAX_MATCHED_TEXT_LENGTH = 512;

// The budget for all patterns of one command: compiled steps times characters of the texts. About 10 ms of CPU time.
const MAX_PATTERN_WORK = 300_000;
const MAX_PATTERN_STEPS = Math.floor(MAX_PATTERN_WORK / MAX_MATCHED_TEXT_LENGTH);

// Each may cache up to 8 MB of matcher state.
const MAX_COMPILED_PATTERNS = 32;
/** The cached patterns, the least recently used one first. */
const compiledPatterns = new Map<string, RE2JS>();

/**
 * Limits the cost of all patterns of one command, so that no definition blocks the server when it is validated or
 * executed.
 */
export class PatternBudget {
  private remainingWork = MAX_PATTERN_WORK;

  /**
   * Returns why a pattern cannot be used, as the end of a sentence about it; undefined if it can. `valuesLength`: the
   * number of characters of the values that are matched against it.
   */
  findProblem(pattern: string, valuesLength: number): string | undefined {
    if (this.remainingWork < 0)
      return 'cannot be checked, because the patterns before it are too expensive; fix those first';
    if (estimateSteps(pattern) > 2 * MAX_PATTERN_STEPS) return TOO_MANY_REPETITIONS;
    try {
      const regex = RE2JS.compile(pattern);
      const steps = regex.programSize();
      if (steps > MAX_PATTERN_STEPS) return TOO_MANY_REPETITIONS;
      this.remainingWork -= steps * (MAX_MATCHED_TEXT_LENGTH + valuesLength);
      if (this.remainingWork >= 0) cachePattern(pattern, regex);
      return this.remainingWork < 0
        ? `is too expensive together with the patterns before it (a pattern may have at most ${MAX_PATTERN_STEPS} steps, this one has ${steps}); use smaller counts in {}, fewer patterns, or fewer enum and default values`
        : undefined;
    } catch (error) {
      if (!(error instanceof RE2JSException)) throw error;
      return `is not a valid RE2 regular expression (${error.message}); look-around and back-references are not supported`;
    }
  }
}

const TOO_MANY_REPETITIONS = `has too many repetitions: use smaller counts in {} so that it has at most ${MAX_PATTERN_STEPS} steps`;

/**
 * Whether a text of at most MAX_MATCHED_TEXT_LENGTH characters matches the pattern somewhere, in linear time. The
 * pattern must be valid.
 */
export function matchesPattern(pattern: string, text: string): boolean {
  return compilePattern(pattern).matcher(text).find();
}

/**
 * Returns the compiled pattern from the cache, or compiles it. Also on a hit, it becomes the most recently used one.
 */
function compilePattern(pattern: string): RE2JS {
  const regex = compiledPatterns.get(pattern) ?? RE2JS.compile(pattern);
  cachePattern(pattern, regex);
  return regex;
}

/** Caches a compiled pattern as the most recently used one, which is last. Evicts the first one beyond the limit. */
function cachePattern(pattern: string, regex: RE2JS): void {
  compiledPatterns.delete(pattern);
  compiledPatterns.set(pattern, regex);
  const [oldest] = compiledPatterns.keys();
  if (oldest !== undefined && compiledPatterns.size > MAX_COMPILED_PATTERNS) compiledPatterns.delete(oldest);
}

/**
 * One token of a pattern: an escape, a character class, a count (captures its bounds), an opening group, or a
 * character.
 */
const TOKEN = /\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|\((?:\?[^:)]*:?)?|[^]/gsu;

/**
 * Estimates the number of steps of a pattern without compiling it: compiling nested counts such as `x{1000}` would take
 * too long.
 */
function estimateSteps(pattern: string): number {
  // The steps before each open group, of the current group so far, and of the last item, which a count repeats.
  const enclosingSums: number[] = [];
  let steps = 0;
  let lastItemSteps = 0;
  for (const [token, min, max] of pattern.matchAll(TOKEN)) {
    if (token.startsWith('(')) {
      enclosingSums.push(steps);
      steps = 0;
    } else if (min !== undefined) {
      const repetitions = Math.max(Number(min), Number(max ?? 0), 1);
      const added = lastItemSteps * (repetitions - 1);
      steps += added;
      lastItemSteps += added;
    } else if (!'?*+'.includes(token)) {
      lastItemSteps = token === ')' ? steps : 1;
      steps = token === ')' ? steps + (enclosingSums.pop() ?? 0) : steps + 1;
    }
  }
  return enclosingSums.reduce((total, enclosingSum) => total + enclosingSum, steps);
}
