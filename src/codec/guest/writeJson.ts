import type { GuestProblem } from '../guestWords';
import { glue, isArray, stringify } from './intrinsics';
import { name, show } from './show';

// Every character takes a byte or more.
const MOST_CHARACTERS = 65_536;
const MOST_LEVELS = 32;

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

  const refuse = (code: GuestProblem['code'], message: string): never => {
    refusal = { code, message };
    throw refusal; // past the engine, to the catch below
  };

  /** Called for every value before it is written; `this` is the object or list that holds it. */
  function check(this: unknown, key: string, value: unknown): unknown {
    while (within !== undefined && within.value !== this) within = within.up;
    if (isLeftOut(value, within)) return value;
    room -= leastLength(key, value, within);
    if (room < 0) return refuse('too_large', 'data is larger than 65536 bytes as JSON; return less');
    const depth = within === undefined ? 1 : within.depth + 1;
    if (depth > MOST_LEVELS) return refuse('bad_output', 'data is nested deeper than 32 levels; make it flatter');
    if (typeof value === 'bigint') return refuse('bad_output', glue(pathTo(key, within), ' is ', name(value), '; JSON has no such numbers: return Number(...) of it'));
    if (typeof value !== 'object' || value === null) return value;
    if (isWithin(value, within)) return refuse('bad_output', glue(pathTo(key, within), ' is an object that holds it; return no circles'));
    within = { value, isList: isArray(value), key, depth, up: within };
    return value;
  }

  try {
    return { text: stringify(data, check), refusal };
  } catch (thrown) {
    if (refusal === undefined) throw thrown;
    return { text: undefined, refusal };
  }
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
