import { validationFailed, type DomainError, type Violation } from '../../kernel/errors';
import { findPrecisionViolation } from './numberPrecision';
import { addViolation, joinPath, MAX_VIOLATIONS } from './violations';

/** The maximum nesting depth of objects and arrays. */
const MAX_JSON_DEPTH = 32;

/**
 * The maximum number of names and values in a text. JSON.parse takes 80 ms for one MiB of the shortest ones. Requests
 * need less than a tenth of these limits.
 */
const MAX_NAMES = 10_000;
const MAX_VALUES = 100_000;

/** An object or array that is being read. Frames are reused, so that a million small objects need no extra memory. */
class Frame {
  isObject = false;
  /** The key of the value that is being read. */
  key = '';
  /** The index of the item that is being read. */
  index = 0;
  /** The keys so far, as long as there are at most MAX_LISTED_KEYS. */
  private readonly listedKeys: string[] = [];
  private count = 0;
  /** All keys so far, once there are more. */
  private keySet: Set<string> | undefined;

  /** Resets the frame for a new object or array. */
  open(isObject: boolean): void {
    this.isObject = isObject;
    this.key = '';
    this.index = 0;
    this.count = 0;
    this.keySet = undefined;
  }

  /** Adds a key. Returns whether the object had it already. */
  addKey(key: string): boolean {
    if (this.keySet) {
      const countBefore = this.keySet.size;
      return this.keySet.add(key).size === countBefore;
    }
    // The list is longer than `count` if the frame was used for an object with more keys before.
    for (let index = 0; index < this.count; index += 1) if (this.listedKeys[index] === key) return true;
    if (this.count === MAX_LISTED_KEYS) {
      this.keySet = new Set([...this.listedKeys, key]);
      return false;
    }
    this.listedKeys[this.count] = key;
    this.count += 1;
    return false;
  }
}

// Up to this number, comparing keys one by one is faster than a set.
const MAX_LISTED_KEYS = 8;

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
const DIGIT_ZERO = 0x30;
const DIGIT_NINE = 0x39;
const LETTER_A = 0x61;
const LETTER_E = 0x65;
const LETTER_F = 0x66;
const LETTER_N = 0x6e;
const LETTER_T = 0x74;
const LETTER_U = 0x75;
// Bitwise OR with this value converts an upper-case letter to lower case.
const LOWER_CASE_BIT = 0x20;

// A backslash, `u` and four hexadecimal digits.
const UNICODE_ESCAPE_LENGTH = 6;

// The characters that may follow a backslash, except `u`.
const ESCAPED = new Set(['"', '\\', '/', 'b', 'f', 'n', 'r', 't'].map((letter) => letter.charCodeAt(0)));

const VALUE_EXPECTED =
  'expected a value (an object, an array, a string in double quotes, a number, true, false or null)';

// A double represents a number of this length exactly if it has no exponent.
const MAX_EXACT_LENGTH = 15;

/** Validates a JSON text in one pass, without building its value and without recursion. */
export class StrictJsonValidator {
  private position = 0;
  private depth = 0;
  private nameCount = 0;
  private valueCount = 0;
  private readonly frames: Frame[] = [];
  private readonly violations: Violation[] = [];

  constructor(private readonly text: string) {}

  /**
   * Returns the violations, with their paths, that JSON.parse would accept silently. Throws `validation_failed` for
   * invalid JSON, and for JSON that is nested too deeply or has too many names or values.
   */
  run(): Violation[] {
    if (Number.isNaN(this.skipSpace())) throw this.createError('is empty: send JSON');
    while (this.violations.length < MAX_VIOLATIONS) {
      const isValueComplete = this.readValue();
      if (isValueComplete && this.readAfterValue()) break; // the end of the text
    }
    return this.violations;
  }

  /** Reads a value. Returns false if it opened an object or array whose first value is next. */
  private readValue(): boolean {
    this.valueCount += 1;
    if (this.valueCount > MAX_VALUES) throw this.createCountError(MAX_VALUES, 'values');
    const code = this.text.charCodeAt(this.position);
    if (code === QUOTE) this.readString();
    else if (code === OPEN_OBJECT || code === OPEN_LIST) return this.openContainer(code === OPEN_OBJECT);
    else if (code === MINUS || isDigit(code)) this.readNumber(code);
    else if (code === LETTER_T) this.readLiteral('true');
    else if (code === LETTER_F) this.readLiteral('false');
    else if (code === LETTER_N) this.readLiteral('null');
    else throw this.createSyntaxError(VALUE_EXPECTED);
    return true;
  }

  /**
   * Opens an object or array. Returns true if it is empty, so that it is already closed; false if its first value is
   * next.
   */
  private openContainer(isObject: boolean): boolean {
    if (this.depth === MAX_JSON_DEPTH)
      throw this.createError(
        `is nested too deeply: at most ${MAX_JSON_DEPTH} levels of objects and arrays are allowed`,
      );
    const frame = (this.frames[this.depth] ??= new Frame());
    frame.open(isObject);
    this.depth += 1;
    this.position += 1;
    if (this.skipSpace() === (isObject ? CLOSE_OBJECT : CLOSE_LIST)) {
      this.position += 1;
      this.depth -= 1;
      return true;
    }
    if (isObject) this.readKey(frame);
    return false;
  }

  /** Reads what follows a value, up to the next value. Returns true at the end of the text. */
  private readAfterValue(): boolean {
    for (;;) {
      const code = this.skipSpace();
      if (this.depth === 0) {
        if (this.position < this.text.length) throw this.createSyntaxError('expected the end of the JSON text');
        return true;
      }
      const frame = this.frames[this.depth - 1] as Frame;
      if (code === COMMA) {
        this.startNextItem(frame);
        return false;
      }
      if (code !== (frame.isObject ? CLOSE_OBJECT : CLOSE_LIST))
        throw this.createSyntaxError(frame.isObject ? 'expected a comma or }' : 'expected a comma or ]');
      this.position += 1;
      this.depth -= 1;
    }
  }

  /** Moves from a comma to the next value: reads the key of an object, or counts the items of an array. */
  private startNextItem(frame: Frame): void {
    this.position += 1;
    this.skipSpace();
    if (frame.isObject) this.readKey(frame);
    else frame.index += 1;
  }

  /** Reads a key and its colon. Appends a violation for a duplicate key and for `__proto__`. */
  private readKey(frame: Frame): void {
    this.nameCount += 1;
    if (this.nameCount > MAX_NAMES) throw this.createCountError(MAX_NAMES, 'names');
    if (this.text.charCodeAt(this.position) !== QUOTE) throw this.createSyntaxError('expected a name in double quotes');
    const from = this.position;
    const isPlain = this.readString();
    const raw = this.text.slice(from + 1, this.position - 1);
    const key = isPlain ? raw : (JSON.parse(`"${raw}"`) as string);
    const isDuplicate = frame.addKey(key);
    frame.key = key;
    if (isDuplicate) this.addViolation('is a duplicate name: send it only once');
    else if (key === '__proto__') this.addViolation('is not an allowed name: use another name');
    if (this.skipSpace() !== COLON) throw this.createSyntaxError('expected a colon');
    this.position += 1;
    this.skipSpace();
  }

  /** Reads a string. Returns whether it has no escapes, so that the text is the value. */
  private readString(): boolean {
    const { text } = this;
    let isPlain = true;
    let position = this.position + 1;
    for (let code = text.charCodeAt(position); code !== QUOTE; code = text.charCodeAt(position)) {
      if (code === BACKSLASH) {
        isPlain = false;
        position = this.readEscape(position);
      } else if (code >= 0x20) {
        position += 1;
      } else {
        // A control character, or NaN at the end of the text.
        this.position = Math.min(position, text.length);
        throw this.createSyntaxError(
          position >= text.length ? 'the text ends inside a string' : 'a control character must be escaped',
        );
      }
    }
    this.position = position + 1;
    return isPlain;
  }

  /**
   * Reads an escape sequence, or two for a surrogate pair (a character that takes two code units, each with its own
   * escape sequence). Returns the position after it.
   */
  private readEscape(position: number): number {
    const letter = this.text.charCodeAt(position + 1);
    if (letter !== LETTER_U) {
      if (ESCAPED.has(letter)) return position + 2;
      this.position = position;
      throw this.createSyntaxError('unknown escape sequence');
    }
    const code = this.readHex(position);
    if (code === 0) this.addViolation('contains the NUL character: remove it');
    const end = position + UNICODE_ESCAPE_LENGTH;
    const isSurrogate = code >= 0xd800 && code <= 0xdfff;
    if (!isSurrogate) return end;
    const isFirstHalf = code <= 0xdbff;
    const isPair = isFirstHalf && this.text.startsWith('\\u', end) && isSecondHalf(this.readHex(end));
    if (!isPair) this.addViolation('is not well-formed Unicode (half of a surrogate pair): send complete characters');
    return isPair ? end + UNICODE_ESCAPE_LENGTH : end;
  }

  /** Returns the code of the escape sequence (a backslash, `u` and four digits) that starts at a position. */
  private readHex(position: number): number {
    let value = 0;
    const end = position + UNICODE_ESCAPE_LENGTH;
    for (let index = position + '\\u'.length; index < end; index += 1) {
      const digit = parseHexDigit(this.text.charCodeAt(index));
      if (digit < 0) {
        this.position = position;
        throw this.createSyntaxError('expected four hexadecimal digits after \\u');
      }
      value = value * 16 + digit;
    }
    return value;
  }

  /**
   * Reads a number. Appends a violation if a double cannot represent it; short numbers without an exponent always can.
   */
  private readNumber(first: number): void {
    const from = this.position;
    if (first === MINUS) this.position += 1;
    if (this.text.charCodeAt(this.position) === DIGIT_ZERO) this.position += 1;
    else this.readDigits();
    if (this.text.charCodeAt(this.position) === POINT) {
      this.position += 1;
      this.readDigits();
    }
    const hasExponent = (this.text.charCodeAt(this.position) | LOWER_CASE_BIT) === LETTER_E;
    if (hasExponent) this.readExponent();
    if (!hasExponent && this.position - from <= MAX_EXACT_LENGTH) return;
    const violation = findPrecisionViolation(this.text.slice(from, this.position));
    if (violation) this.addViolation(violation);
  }

  /** Reads the exponent of a number: `e`, an optional sign and the digits. */
  private readExponent(): void {
    const sign = this.text.charCodeAt(this.position + 1);
    this.position += sign === PLUS || sign === MINUS ? 2 : 1;
    this.readDigits();
  }

  /** Moves over at least one digit. Throws validation_failed if there is none. */
  private readDigits(): void {
    const { text } = this;
    let { position } = this;
    while (isDigit(text.charCodeAt(position))) position += 1;
    const isEmpty = position === this.position;
    this.position = position;
    if (isEmpty) throw this.createSyntaxError('expected a digit');
  }

  /** Reads `true`, `false` or `null`. */
  private readLiteral(word: string): void {
    if (!this.text.startsWith(word, this.position)) throw this.createSyntaxError(VALUE_EXPECTED);
    this.position += word.length;
  }

  /** Moves to the next character that is not white space. Returns its code; NaN at the end of the text. */
  private skipSpace(): number {
    const { text } = this;
    let { position } = this;
    let code = text.charCodeAt(position);
    while (code <= 0x20 && isSpace(code)) code = text.charCodeAt(++position);
    this.position = position;
    return code;
  }

  /** Appends a violation of the value that is being read. */
  private addViolation(description: string): void {
    addViolation(this.violations, this.getPath(), description);
  }

  /** Returns the path of the value that is being read, for example `devices[2].name`. */
  private getPath(): string {
    let path = '';
    for (const frame of this.frames.slice(0, this.depth))
      path = frame.isObject ? joinPath(path, frame.key) : `${path}[${frame.index}]`;
    return path;
  }

  /** Creates the error for invalid JSON, with the line and the column of the current position. */
  private createSyntaxError(problem: string): DomainError {
    let line = 1;
    let lineStart = 0;
    for (let position = 0; position < this.position; position += 1) {
      if (this.text.charCodeAt(position) !== LINE_BREAK) continue;
      line += 1;
      lineStart = position + 1;
    }
    return this.createError(`is not valid JSON at line ${line}, column ${this.position - lineStart + 1}: ${problem}`);
  }

  /** Creates the error for a text with too many names or values; it includes the violations so far. */
  private createCountError(max: number, kind: string): DomainError {
    return validationFailed([
      ...this.violations,
      { field: '', description: `has more than ${max} ${kind}: send fewer in one request` },
    ]);
  }

  /** Creates an error at the current path; it includes the violations so far. */
  private createError(description: string): DomainError {
    return validationFailed([...this.violations, { field: this.getPath(), description }]);
  }
}

/** Whether a code unit is the second half of a surrogate pair. */
function isSecondHalf(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

function isDigit(code: number): boolean {
  return code >= DIGIT_ZERO && code <= DIGIT_NINE;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/** Returns the value of a hexadecimal digit; -1 for any other character. */
function parseHexDigit(code: number): number {
  if (isDigit(code)) return code - DIGIT_ZERO;
  const lower = code | LOWER_CASE_BIT;
  return lower >= LETTER_A && lower <= LETTER_F ? lower - LETTER_A + 10 : -1;
}
