import type { GuestProblem } from '../guestWords';
import { glue, isArray, stringify } from './intrinsics';
import { name, show } from './show';

// Every character takes a byte or more.
const MOST_CHARACTERS = 65_536;
const MOST_LEVELS = 32;
const TOO_LARGE: GuestProblem = { code: 'too_large', message: 'data is larger than 65536 bytes as JSON; return less' };
const TOO_DEEP: GuestProblem = { code: 'bad_output', message: 'data is nested deeper than 32 levels; make it flatter' };

/** What came of it: the text, undefined where JSON knows nothing to write; or why it was refused. */
export interface Written {
  readonly text: string | undefined;
  readonly refusal: GuestProblem | undefined;
}

/** An object or list that is being written, within others. */
interface Level {
  readonly value: unknown;
  readonly isList: boolean;
  readonly key: string;
  readonly depth: number;
  readonly up: Level | undefined;
}

/**
 * Writes a value as JSON.stringify does, and gives up as soon as it is too large, too deep or without end: the engine itself goes on as long
 * as there is memory, and is not to be stopped while it does. Throws what the script's own getters and toJSON throw.
 */
export function writeJson(data: object): Written {
  let within: Level | undefined;
  let room = MOST_CHARACTERS;
  let refusal: GuestProblem | undefined;

  /** Called for every value before it is written; `this` is the object or list that holds it. */
  function check(this: unknown, key: string, value: unknown): unknown {
    while (within !== undefined && within.value !== this) within = within.up;
    if (isLeftOut(value, within)) return value;
    room -= leastLength(key, value, within);
    refusal = room < 0 ? TOO_LARGE : problemOf(key, value, within);
    if (refusal) throw refusal; // past the engine, to the catch below
    if (typeof value === 'object' && value !== null) within = { value, isList: isArray(value), key, depth: depthIn(within), up: within };
    return value;
  }

  try {
    return { text: stringify(data, check), refusal };
  } catch (thrown) {
    if (refusal === undefined) throw thrown;
    return { text: undefined, refusal };
  }
}

/** Why a value cannot be written where it stands. */
function problemOf(key: string, value: unknown, within: Level | undefined): GuestProblem | undefined {
  if (depthIn(within) > MOST_LEVELS) return TOO_DEEP;
  if (typeof value === 'bigint') return wrongAt(key, within, glue(' is ', name(value), '; JSON has no such numbers: return Number(...) of it'));
  return typeof value === 'object' && value !== null && isWithin(value, within) ? wrongAt(key, within, ' is an object that holds it; return no circles') : undefined;
}

function wrongAt(key: string, within: Level | undefined, what: string): GuestProblem {
  return { code: 'bad_output', message: glue(pathTo(key, within), what) };
}

function depthIn(within: Level | undefined): number {
  return within === undefined ? 1 : within.depth + 1;
}

/** Whether JSON leaves a value out. In a list it is null. */
function isLeftOut(value: unknown, within: Level | undefined): boolean {
  return (value === undefined || typeof value === 'function' || typeof value === 'symbol') && within?.isList !== true;
}

/** How many characters a value takes at least, less those of what it holds. */
function leastLength(key: string, value: unknown, within: Level | undefined): number {
  const keyLength = within === undefined || within.isList ? 0 : key.length + 3;
  return keyLength + (typeof value === 'string' ? value.length + 2 : 1);
}

function isWithin(value: object, within: Level | undefined): boolean {
  for (let level = within; level !== undefined; level = level.up) if (level.value === value) return true;
  return false;
}

function pathTo(key: string, within: Level | undefined): string {
  if (within === undefined) return 'data';
  const shown = show(key, 40);
  return within.isList ? glue(pathTo(within.key, within.up), '[', shown, ']') : glue(pathTo(within.key, within.up), '.', shown);
}
