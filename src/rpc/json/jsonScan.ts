import { validationFailed, type DomainError, type Violation } from '../../kernel/errors';
import { MOST_VIOLATIONS, pathTo, report } from './faults';
import { numberFault } from './numberTexts';

/** The greatest depth of objects and lists in each other. */
export const LARGEST_JSON_DEPTH = 32;

/**
 * How many names, and how many values, a text may hold. A MiB of the shortest ones keeps JSON.parse busy for 80 ms; no request needs more
 * than a tenth of this.
 */
const MOST_NAMES = 10_000;
const MOST_VALUES = 100_000;

/** An object or a list that is open. Kept and used again, so that a million small ones cost no memory. */
class Frame {
  isObject = false;
  /** The key of the value that is being read. */
  key = '';
  /** The place of the item that is being read. */
  index = 0;
  private readonly few: string[] = [];
  private count = 0;
  private many: Set<string> | undefined;

  open(isObject: boolean): void {
    this.isObject = isObject;
    this.key = '';
    this.index = 0;
    this.count = 0;
    this.many = undefined;
  }

  /** Whether the key was there before. */
  knows(key: string): boolean {
    if (this.many) return this.many.size === this.many.add(key).size;
    for (let at = 0; at < this.count; at += 1) if (this.few[at] === key) return true;
    if (this.count === FEW) this.many = new Set([...this.few, key]);
    else this.few[this.count++] = key;
    return false;
  }
}

// So many keys are compared one by one sooner than put into a set.
const FEW = 8;

const LINE_BREAK = 0x0a;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const PLUS = 0x2b;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LETTER_A = 0x61;
const LETTER_E = 0x65;
const LETTER_F = 0x66;
const LETTER_N = 0x6e;
const LETTER_T = 0x74;
const LETTER_U = 0x75;
// Or'ed to a capital letter, it makes the small one.
const SMALL = 0x20;

const ESCAPED = new Set(['"', '\\', '/', 'b', 'f', 'n', 'r', 't'].map((letter) => letter.charCodeAt(0)));

const VALUE_EXPECTED = 'a value is expected: an object, a list, a text in double quotes, a number, true, false or null';

// A number of so few characters without an exponent has no more digits than a double holds.
const SURELY_HELD = 15;

/** One look through a JSON text, without building its value and without recursion. */
export class JsonScan {
  private at = 0;
  private depth = 0;
  private names = 0;
  private values = 0;
  private readonly frames: Frame[] = [];
  private readonly violations: Violation[] = [];

  constructor(private readonly text: string) {}

  /** What JSON.parse would take without a word though it loses something, by path. Throws `validation_failed` for what is no JSON, or nested too deep. */
  run(): Violation[] {
    if (Number.isNaN(this.skipSpace())) throw this.failed('is empty; send JSON');
    while (this.violations.length < MOST_VIOLATIONS) if (this.value() && this.isOver()) break;
    return this.violations;
  }

  /** Reads a value; false when it only opened an object or a list, and the first value in it is next. */
  private value(): boolean {
    this.values += 1;
    if (this.values > MOST_VALUES) throw this.tooMany(MOST_VALUES, 'values');
    const code = this.text.charCodeAt(this.at);
    if (code === QUOTE) this.string();
    else if (code === OPEN_OBJECT || code === OPEN_LIST) return this.open(code === OPEN_OBJECT);
    else if (code === MINUS || isDigit(code)) this.number(code);
    else if (code === LETTER_T) this.literal('true');
    else if (code === LETTER_F) this.literal('false');
    else if (code === LETTER_N) this.literal('null');
    else throw this.wrong(VALUE_EXPECTED);
    return true;
  }

  private open(isObject: boolean): boolean {
    if (this.depth === LARGEST_JSON_DEPTH) throw this.failed(`is nested too deep; at most ${LARGEST_JSON_DEPTH} levels of objects and lists are allowed`);
    const frame = (this.frames[this.depth] ??= new Frame());
    frame.open(isObject);
    this.depth += 1;
    this.at += 1;
    if (this.skipSpace() === (isObject ? CLOSE_OBJECT : CLOSE_LIST)) {
      this.at += 1;
      this.depth -= 1;
      return true;
    }
    if (isObject) this.key(frame);
    return false;
  }

  /** After a value: what closes, and whether that was all. */
  private isOver(): boolean {
    for (;;) {
      const code = this.skipSpace();
      if (this.depth === 0) {
        if (this.at < this.text.length) throw this.wrong('nothing may follow here');
        return true;
      }
      const frame = this.frames[this.depth - 1] as Frame;
      if (code === COMMA) {
        this.next(frame);
        return false;
      }
      if (code !== (frame.isObject ? CLOSE_OBJECT : CLOSE_LIST)) throw this.wrong(frame.isObject ? 'a comma or } is expected' : 'a comma or ] is expected');
      this.at += 1;
      this.depth -= 1;
    }
  }

  private next(frame: Frame): void {
    this.at += 1;
    this.skipSpace();
    if (frame.isObject) this.key(frame);
    else frame.index += 1;
  }

  private key(frame: Frame): void {
    this.names += 1;
    if (this.names > MOST_NAMES) throw this.tooMany(MOST_NAMES, 'names');
    if (this.text.charCodeAt(this.at) !== QUOTE) throw this.wrong('a name in double quotes is expected');
    const from = this.at;
    const isPlain = this.string();
    const raw = this.text.slice(from + 1, this.at - 1);
    const key = isPlain ? raw : (JSON.parse(`"${raw}"`) as string);
    const isDouble = frame.knows(key);
    frame.key = key;
    if (isDouble) this.fault('is given twice; give it once');
    else if (key === '__proto__') this.fault('is no name that is kept; choose another');
    if (this.skipSpace() !== COLON) throw this.wrong('a colon is expected');
    this.at += 1;
    this.skipSpace();
  }

  /** Reads a string; true when it stands in the text as it is meant. */
  private string(): boolean {
    const { text } = this;
    let isPlain = true;
    let at = this.at + 1;
    for (let code = text.charCodeAt(at); code !== QUOTE; code = text.charCodeAt(at)) {
      if (code === BACKSLASH) {
        isPlain = false;
        at = this.escape(at);
      } else if (code >= 0x20) {
        at += 1;
      } else {
        this.at = Math.min(at, text.length);
        throw this.wrong(at >= text.length ? 'the text ends inside of a string' : 'a control character must be escaped');
      }
    }
    this.at = at + 1;
    return isPlain;
  }

  /** Reads an escape, of a pair of surrogates both; gives the place after it. */
  private escape(at: number): number {
    const letter = this.text.charCodeAt(at + 1);
    if (letter !== LETTER_U) {
      if (ESCAPED.has(letter)) return at + 2;
      this.at = at;
      throw this.wrong('there is no such escape');
    }
    const code = this.hex(at);
    if (code === 0) this.fault('holds the character NUL; leave it out');
    if (code < 0xd800 || code > 0xdfff) return at + 6;
    const isPair = code <= 0xdbff && this.text.startsWith('\\u', at + 6) && (this.hex(at + 6) & 0xfc00) === 0xdc00;
    if (!isPair) this.fault('is not well-formed Unicode (half of a surrogate pair); send whole characters');
    return at + (isPair ? 12 : 6);
  }

  private hex(at: number): number {
    let value = 0;
    for (let place = at + 2; place < at + 6; place += 1) {
      const digit = hexDigit(this.text.charCodeAt(place));
      if (digit < 0) {
        this.at = at;
        throw this.wrong('four hexadecimal digits are expected after \\u');
      }
      value = value * 16 + digit;
    }
    return value;
  }

  private number(first: number): void {
    const from = this.at;
    if (first === MINUS) this.at += 1;
    if (this.text.charCodeAt(this.at) === ZERO) this.at += 1;
    else this.digits();
    if (this.text.charCodeAt(this.at) === POINT) {
      this.at += 1;
      this.digits();
    }
    const hasExponent = (this.text.charCodeAt(this.at) | SMALL) === LETTER_E;
    if (hasExponent) this.exponent();
    if (!hasExponent && this.at - from <= SURELY_HELD) return;
    const fault = numberFault(this.text.slice(from, this.at));
    if (fault) this.fault(fault);
  }

  private exponent(): void {
    const sign = this.text.charCodeAt(this.at + 1);
    this.at += sign === PLUS || sign === MINUS ? 2 : 1;
    this.digits();
  }

  private digits(): void {
    const { text } = this;
    let { at } = this;
    while (isDigit(text.charCodeAt(at))) at += 1;
    const isNone = at === this.at;
    this.at = at;
    if (isNone) throw this.wrong('a digit is expected');
  }

  private literal(word: string): void {
    if (!this.text.startsWith(word, this.at)) throw this.wrong(VALUE_EXPECTED);
    this.at += word.length;
  }

  /** Goes to the next character that is no white space, and gives its code: NaN at the end. */
  private skipSpace(): number {
    const { text } = this;
    let { at } = this;
    let code = text.charCodeAt(at);
    while (code <= 0x20 && isSpace(code)) code = text.charCodeAt(++at);
    this.at = at;
    return code;
  }

  private fault(description: string): void {
    report(this.violations, this.path(), description);
  }

  private path(): string {
    let path = '';
    for (const frame of this.frames.slice(0, this.depth)) path = frame.isObject ? pathTo(path, frame.key) : `${path}[${frame.index}]`;
    return path;
  }

  private wrong(expected: string): DomainError {
    let line = 1;
    let start = 0;
    for (let at = 0; at < this.at; at += 1) {
      if (this.text.charCodeAt(at) !== LINE_BREAK) continue;
      line += 1;
      start = at + 1;
    }
    return this.failed(`is not JSON at line ${line}, column ${this.at - start + 1}: ${expected}`);
  }

  private tooMany(most: number, what: string): DomainError {
    return validationFailed([...this.violations, { field: '', description: `holds more than ${most} ${what}; send less in one request` }]);
  }

  private failed(description: string): DomainError {
    return validationFailed([...this.violations, { field: this.path(), description }]);
  }
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/** The value of a hexadecimal digit; -1 for any other character. */
function hexDigit(code: number): number {
  if (isDigit(code)) return code - ZERO;
  const small = code | SMALL;
  return small >= LETTER_A && small <= LETTER_F ? small - LETTER_A + 10 : -1;
}
