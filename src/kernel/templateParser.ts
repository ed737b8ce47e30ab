import { isWellFormed, findKeyProblem, MAX_DEPTH } from './jsonValue';
import { readPlaceholder } from './placeholders';
import { truncateForDisplay } from './truncate';
import { MAX_NAME_LENGTH, findTemplateKeyProblem, createTextNode, type TemplateNode } from './templateNodes';

const WHITESPACE = ' \t\r\n';
const KEYWORD = /true|false|null/y;
// The groups are the fraction and the exponent.
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;

/** Ends the parsing of a text whose rest cannot be parsed. */
class TemplateSyntaxError extends Error {}

/** Parses JSON in which a bare `{{path}}` may replace a value, in one pass. Use one parser per text. */
export class TemplateParser {
  /** The problems of the text, as sentences. */
  readonly problems: string[] = [];
  private position = 0;

  constructor(
    private readonly text: string,
    private readonly roots: readonly string[],
  ) {}

  /** Returns the tree of the text; undefined if it is not JSON. Only valid if there are no problems. */
  parse(): TemplateNode | undefined {
    try {
      const node = this.parseValue(MAX_DEPTH);
      this.skipWhitespace();
      if (this.position < this.text.length)
        throw this.createSyntaxError('there is more text after the value: remove it');
      return node;
    } catch (error) {
      if (!(error instanceof TemplateSyntaxError)) throw error;
      this.problems.push(error.message);
      return undefined;
    }
  }

  /** Parses the value at the current position. `depthLeft`: how many levels it may still have. */
  private parseValue(depthLeft: number): TemplateNode {
    this.skipWhitespace();
    if (depthLeft === 0)
      throw this.createSyntaxError(`the value is nested deeper than ${MAX_DEPTH} levels: make it flatter`);
    if (this.text.startsWith('{{', this.position)) return this.parsePlaceholder();
    const character = this.text[this.position];
    if (character === '{') return this.parseObject(depthLeft);
    if (character === '[') return this.parseList(depthLeft);
    return character === '"' ? this.parseString() : this.parseScalar();
  }

  /**
   * Parses `{{path}}`. After a problem in the path, parsing continues after `}}` with null, so that further problems
   * are found too.
   */
  private parsePlaceholder(): TemplateNode {
    const result = readPlaceholder(this.text, this.position, this.roots, this.formatLocation(this.position));
    // Without its "}}" the end of the value is unknown.
    const isClosed = this.text.startsWith('}}', result.end - '}}'.length);
    if ('problem' in result && !isClosed) throw new TemplateSyntaxError(result.problem);
    this.position = result.end;
    if ('placeholder' in result) return { kind: 'value', placeholder: result.placeholder };
    this.problems.push(result.problem);
    return { kind: 'literal', value: null };
  }

  /** Parses an object. A problem of a key is recorded and parsing continues. */
  private parseObject(depthLeft: number): TemplateNode {
    const members = new Map<string, TemplateNode>();
    this.parseItems('}', () => {
      if (this.text[this.position] !== '"') throw this.createSyntaxError('expected a key in double quotes');
      const start = this.position;
      const key = this.parseQuotedText();
      const problem =
        findTemplateKeyProblem(key) ??
        findKeyProblem(key) ??
        (members.has(key) ? 'occurs twice in its object: remove one' : undefined);
      if (problem) {
        this.problems.push(
          `the key ${JSON.stringify(truncateForDisplay(key, MAX_NAME_LENGTH))} ${this.formatLocation(start)} ${problem}`,
        );
      }
      this.skipWhitespace();
      if (this.text[this.position] !== ':') throw this.createSyntaxError('expected ":" after a key');
      this.position += 1;
      members.set(key, this.parseValue(depthLeft - 1));
    });
    return { kind: 'object', members: [...members] };
  }

  private parseList(depthLeft: number): TemplateNode {
    const items: TemplateNode[] = [];
    this.parseItems(']', () => items.push(this.parseValue(depthLeft - 1)));
    return { kind: 'list', items };
  }

  /** Reads the items between the bracket at the current position and `close`. */
  private parseItems(close: string, parseItem: () => void): void {
    this.position += 1;
    this.skipWhitespace();
    if (this.text[this.position] === close) {
      this.position += 1;
      return;
    }
    for (;;) {
      this.skipWhitespace();
      parseItem();
      this.skipWhitespace();
      const character = this.text[this.position];
      if (character !== ',' && character !== close) throw this.createSyntaxError(`expected "," or "${close}"`);
      this.position += 1;
      if (character === close) return;
    }
  }

  /** Parses a string, which may contain placeholders. */
  private parseString(): TemplateNode {
    const location = `in the text ${this.formatLocation(this.position)}`;
    const text = this.parseQuotedText();
    if (!isWellFormed(text))
      this.problems.push(`there is an unpaired surrogate ${location}: use well-formed Unicode text`);
    return createTextNode(text, this.roots, () => location, this.problems);
  }

  /** Parses a JSON string and returns its text. An escaped quote does not end it. */
  private parseQuotedText(): string {
    let end = this.position + 1;
    while (end < this.text.length && this.text[end] !== '"') end += this.text[end] === '\\' ? 2 : 1;
    try {
      const text = JSON.parse(this.text.slice(this.position, end + 1)) as string;
      this.position = end + 1;
      return text;
    } catch {
      throw this.createSyntaxError(
        'the text is not a JSON string: close it with ", and escape ", \\ and line breaks with \\',
      );
    }
  }

  /** Parses true, false, null or a number. A number that would lose digits as a JavaScript number is a problem. */
  private parseScalar(): TemplateNode {
    const keyword = this.matchPattern(KEYWORD);
    if (keyword) return { kind: 'literal', value: JSON.parse(keyword[0]) as boolean | null };
    const start = this.position;
    const match = this.matchPattern(NUMBER);
    if (!match) throw this.createSyntaxError('expected a JSON value or {{path}}');
    const [numberText, fraction, exponent] = match;
    const value = Number(numberText);
    if (!Number.isFinite(value))
      this.problems.push(`the number ${this.formatLocation(start)} is too large: use one below 1.8e308`);
    const isInteger = fraction === undefined && exponent === undefined;
    if (isInteger && !Number.isSafeInteger(value)) {
      this.problems.push(
        `the number ${this.formatLocation(start)} would lose digits: use an integer below 2^53, or a text in double quotes`,
      );
    }
    return { kind: 'literal', value };
  }

  private skipWhitespace(): void {
    while (this.position < this.text.length && WHITESPACE.includes(this.text[this.position] as string))
      this.position += 1;
  }

  /** Matches a sticky pattern at the current position and moves to its end; null if it does not match. */
  private matchPattern(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.position;
    const match = pattern.exec(this.text);
    if (match) this.position += match[0].length;
    return match;
  }

  /** Creates an error that names what was found at the current position, and what was expected. */
  private createSyntaxError(expected: string): TemplateSyntaxError {
    const actual =
      this.position < this.text.length
        ? `${JSON.stringify(String.fromCodePoint(this.text.codePointAt(this.position) ?? 0))} found`
        : 'the text ends';
    return new TemplateSyntaxError(`${actual} ${this.formatLocation(this.position)}: ${expected}`);
  }

  private formatLocation(index: number): string {
    return `at character ${index + 1}`;
  }
}
