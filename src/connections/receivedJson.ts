import { toExactOrInexact, InexactNumber } from '../kernel/inexactNumber';
import { MAX_DEPTH } from '../kernel/jsonValue';

/**
 * The value of a received JSON text, or why it cannot be read: a code, a colon and a description without the content.
 * Numbers that JavaScript does not hold exactly are InexactNumber.
 */
type ReceivedJson = { readonly value: unknown } | { readonly reason: string };

const BYTE_ORDER_MARK = /^\uFEFF/;
/**
 * Whether a number may be above 2^53, so that JSON.parse may have rounded it: it has 16 digits before the point, or
 * many digits or a large exponent. The digits after a point do not count. A number starts after a separator, so that
 * most ids and base64 texts do not match.
 */
const MAY_BE_INEXACT = /(?:^|[:,[\s])-?(?:\d{16}|\d[\d.]{15,40}[eE]|\d[\d.]*[eE]\+?\d{3})/;
/** Whether a text may be a value. Most binary payloads are not, and are recognized without an exception. */
const MAY_BE_VALUE = /^[ \t\n\r]*["{[\d+\-a-z]/i;
/** What JSON starts with, and at least one more character of it. */
const JSON_START = /^\s*(?:\{\s*["'}\w]|\[\s*["'{[\]\w+-])/;
/** Control characters that text does not have, and the replacement of bytes that are not UTF-8. */
const NOT_TEXT = /(?![\t\n\r])\p{Cc}|\uFFFD/u;

const WHITE_SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\]|\\.)*"/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/y;
const WORD = /[+-]?[a-z]+(?:\([a-z0-9_]*\))?(?![\w.])/iy;
/** What C and Python print instead of a number, such as `nan`, `-nan(ind)`, `None` and `-Infinity`. */
const NOT_A_NUMBER = /^([+-]?)(?:(nan)(?:\([a-z0-9_]*\))?|inf(?:inity)?)$|^(none)$/i;
/** What remains of a text that ends within a token: nothing, a part of a constant or number, or an open string. */
const INCOMPLETE_TOKEN = /^(?:[\w.+-]*|"(?:[^"\\]|\\.)*\\?)$/;
const CONSTANTS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ['true', true],
  ['false', false],
  ['null', null],
]);

/**
 * Reads JSON from a device, and what is JSON except for: a byte order mark, NUL at the end, a comma after the last
 * value of a list or object, constants as C and Python print them (`True`, `nan`, `-inf`; any case). `None` is not a
 * number, like `nan`. Everything else is unreadable, for example JSON that was cut, or single quotes.
 */
export function readReceivedJson(bytes: Buffer): ReceivedJson {
  const text = bytes.toString().replace(BYTE_ORDER_MARK, '');
  let value: unknown;
  try {
    value = JSON.parse(text) as unknown;
  } catch {
    return MAY_BE_VALUE.test(text) ? new TolerantReader(removeNuls(text)).read() : NO_VALUE;
  }
  if (!MAY_BE_INEXACT.test(text)) return { value };
  const exact = new TolerantReader(text).read();
  return 'value' in exact ? exact : { value }; // too deep for the reader
}

/**
 * Returns whether bytes that are not JSON look like it: text that starts like an object or a list. What follows a NUL
 * does not count, because a C program may send the rest of its buffer with the text.
 */
export function looksLikeJson(bytes: Buffer): boolean {
  const [beforeNul = ''] = bytes.toString().replace(BYTE_ORDER_MARK, '').split('\0', 1);
  const text = beforeNul.replace(/\uFFFD$/, ''); // a cut character
  return JSON_START.test(text) && !NOT_TEXT.test(text);
}

const NO_VALUE = { reason: 'json_invalid: expected a value at character 1' };

/** Removes NULs and white space from the end: a C program that sends its whole buffer adds them. */
function removeNuls(text: string): string {
  let end = text.length;
  while (end > 0 && '\0 \t\n\r'.includes(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}

/** Why a text cannot be read. */
class Unreadable extends Error {}

/** Reads one text, in linear time. The depth of the value is limited to MAX_DEPTH. */
class TolerantReader {
  private position = 0;

  constructor(private readonly text: string) {}

  /** Returns the value of the text, or why it cannot be read. */
  read(): ReceivedJson {
    try {
      const value = this.readValue(1);
      if (this.position < this.text.length) throw this.unexpected('the end');
      return { value };
    } catch (error) {
      if (error instanceof Unreadable) return { reason: error.message };
      throw error;
    }
  }

  /** Reads a value and the white space around it. */
  private readValue(depth: number): unknown {
    this.match(WHITE_SPACE);
    const value = this.readValueOnly(depth);
    this.match(WHITE_SPACE);
    return value;
  }

  private readValueOnly(depth: number): unknown {
    if (depth > MAX_DEPTH) throw new Unreadable(`json_too_deep: nest at most ${MAX_DEPTH} levels`);
    if (this.skip('{')) return this.readObject(depth);
    if (this.skip('[')) return this.readList(depth);
    const string = this.match(STRING);
    if (string !== undefined) return this.parseString(string);
    const number = this.match(NUMBER);
    if (number !== undefined) return toExactOrInexact(number, Number(number));
    return this.readWord();
  }

  private readObject(depth: number): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    this.match(WHITE_SPACE);
    while (!this.skip('}')) {
      const key = this.match(STRING);
      if (key === undefined) throw this.unexpected('a name in double quotes or }');
      this.match(WHITE_SPACE);
      if (!this.skip(':')) throw this.unexpected('a colon');
      // Unlike an assignment, this defines `__proto__` too, which is rejected later.
      Object.defineProperty(object, this.parseString(key), {
        value: this.readValue(depth + 1),
        configurable: true,
        enumerable: true,
        writable: true,
      });
      this.skipComma('}');
    }
    return object;
  }

  private readList(depth: number): unknown[] {
    const list: unknown[] = [];
    this.match(WHITE_SPACE);
    while (!this.skip(']')) {
      list.push(this.readValue(depth + 1));
      this.skipComma(']');
    }
    return list;
  }

  /** Skips the comma after an item, which may be missing before `end`. */
  private skipComma(end: '}' | ']'): void {
    if (this.skip(',')) this.match(WHITE_SPACE);
    else if (this.text[this.position] !== end) throw this.unexpected(`a comma or ${end}`);
  }

  /** Reads a constant. */
  private readWord(): unknown {
    const start = this.position;
    const word = this.match(WORD);
    if (word !== undefined) {
      const constant = CONSTANTS.get(word.toLowerCase());
      if (constant !== undefined) return constant;
      const [, sign, nan, none] = NOT_A_NUMBER.exec(word) ?? [];
      if ((nan ?? none) !== undefined) return new InexactNumber(word, Number.NaN);
      if (sign !== undefined) return new InexactNumber(word, sign === '-' ? -Infinity : Infinity);
    }
    this.position = start;
    throw this.unexpected('a value');
  }

  private parseString(token: string): string {
    try {
      return JSON.parse(token) as string;
    } catch {
      throw new Unreadable(
        `json_invalid: an invalid escape or a control character in the text before character ${this.position + 1}`,
      );
    }
  }

  /** Skips a character; false if the next one is another. */
  private skip(character: string): boolean {
    if (this.text[this.position] !== character) return false;
    this.position += 1;
    return true;
  }

  /** Skips what a sticky expression matches at this position, and returns it; undefined if it does not match. */
  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.position;
    const matched = pattern.exec(this.text)?.[0];
    this.position += matched?.length ?? 0;
    return matched;
  }

  private unexpected(expected: string): Unreadable {
    const isCut = INCOMPLETE_TOKEN.test(this.text.slice(this.position));
    return new Unreadable(
      isCut
        ? `json_incomplete: the JSON ends after ${this.text.length} characters, before it is complete; it was possibly cut`
        : `json_invalid: expected ${expected} at character ${this.position + 1}`,
    );
  }
}
