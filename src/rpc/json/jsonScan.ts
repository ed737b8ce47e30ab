import { validationFailed, type DomainError, type Violation } from '../../kernel/errors';
import { MOST_VIOLATIONS, pathTo, report } from './faults';
import { numberFault } from './numberTexts';

/** The greatest depth of objects and lists in each other. */
export const LARGEST_JSON_DEPTH = 32;

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

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LETTER_U = 0x75;

const ESCAPED = new Set(['"', '\\', '/', 'b', 'f', 'n', 'r', 't'].map((letter) => letter.charCodeAt(0)));
const HEX = /^[\dA-Fa-f]{4}$/;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const LITERALS: readonly (readonly [first: number, text: string])[] = ['true', 'false', 'null'].map((text) => [text.charCodeAt(0), text]);

/** One look through a JSON text, without building its value and without recursion. */
export class JsonScan {
  private at = 0;
  private depth = 0;
  private readonly frames: Frame[] = [];
  private readonly violations: Violation[] = [];

  constructor(private readonly text: string) {}

  /** What JSON.parse would take without a word though it loses something, by path. Throws `validation_failed` for what is no JSON, or nested too deep. */
  run(): Violation[] {
    this.space();
    while (this.violations.length < MOST_VIOLATIONS) if (this.value() && this.isOver()) break;
    return this.violations;
  }

  /** Reads a value; false when it only opened an object or a list, and the first value in it is next. */
  private value(): boolean {
    const code = this.text.charCodeAt(this.at);
    if (code === QUOTE) this.string();
    else if (code === OPEN_OBJECT || code === OPEN_LIST) return this.open(code === OPEN_OBJECT);
    else if (code === 0x2d || (code >= 0x30 && code <= 0x39)) this.number();
    else this.literal(code);
    return true;
  }

  private open(isObject: boolean): boolean {
    if (this.depth === LARGEST_JSON_DEPTH) throw this.failed(`is nested too deep; at most ${LARGEST_JSON_DEPTH} levels of objects and lists are allowed`);
    const frame = (this.frames[this.depth] ??= new Frame());
    frame.open(isObject);
    this.depth += 1;
    this.at += 1;
    this.space();
    if (this.text.charCodeAt(this.at) === (isObject ? CLOSE_OBJECT : CLOSE_LIST)) {
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
      this.space();
      if (this.depth === 0) {
        if (this.at < this.text.length) throw this.wrong('nothing may follow here');
        return true;
      }
      const frame = this.frames[this.depth - 1] as Frame;
      const code = this.text.charCodeAt(this.at);
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
    this.space();
    if (frame.isObject) this.key(frame);
    else frame.index += 1;
  }

  private key(frame: Frame): void {
    if (this.text.charCodeAt(this.at) !== QUOTE) throw this.wrong('a name in double quotes is expected');
    const from = this.at;
    const isPlain = this.string();
    const raw = this.text.slice(from + 1, this.at - 1);
    const key = isPlain ? raw : (JSON.parse(`"${raw}"`) as string);
    const isDouble = frame.knows(key);
    frame.key = key;
    if (isDouble) this.fault('is given twice; give it once');
    else if (key === '__proto__') this.fault('is no name that is kept; choose another');
    this.space();
    if (this.text.charCodeAt(this.at) !== COLON) throw this.wrong('a colon is expected');
    this.at += 1;
    this.space();
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
    const digits = this.text.slice(at + 2, at + 6);
    if (HEX.test(digits)) return Number.parseInt(digits, 16);
    this.at = at;
    throw this.wrong('four hexadecimal digits are expected after \\u');
  }

  private number(): void {
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.text);
    if (!found) throw this.wrong('a digit is expected after the minus');
    this.at += found[0].length;
    const fault = numberFault(found[0]);
    if (fault) this.fault(fault);
  }

  private literal(code: number): void {
    const found = LITERALS.find(([first, text]) => first === code && this.text.startsWith(text, this.at));
    if (!found) throw this.wrong('a value is expected: an object, a list, a text in double quotes, a number, true, false or null');
    this.at += found[1].length;
  }

  private space(): void {
    const { text } = this;
    for (let code = text.charCodeAt(this.at); code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09; code = text.charCodeAt(this.at)) this.at += 1;
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
    const before = this.text.slice(0, this.at);
    const line = before.split('\n').length;
    return this.failed(`is not JSON at line ${line}, column ${this.at - before.lastIndexOf('\n')}: ${expected}`);
  }

  private failed(description: string): DomainError {
    return validationFailed([...this.violations, { field: this.path(), description }]);
  }
}
