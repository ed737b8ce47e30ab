import { isWellFormed, keyProblem, LARGEST_DEPTH } from './jsonValue';
import { readPlaceholder } from './placeholders';
import { shortened } from './shortened';
import { LONGEST_NAMED, templateKeyProblem, textNode, type TemplateNode } from './templateNodes';

const BLANKS = ' \t\r\n';
const WORD = /true|false|null/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;

/** The text cannot be read on from here. */
class Unreadable extends Error {}

/** Reads JSON in which a bare `{{path}}` may stand for a value, in one pass. Each reader reads one text once. */
export class TemplateReader {
  /** What is wrong with the text, as sentences about it. */
  readonly problems: string[] = [];
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly roots: readonly string[],
  ) {}

  /** The tree of the whole text; undefined when it is not JSON. Only good if there are no problems. */
  read(): TemplateNode | undefined {
    try {
      const node = this.value(LARGEST_DEPTH);
      this.skipBlanks();
      if (this.at < this.text.length) throw this.unreadable('there is more text after the value; end it there');
      return node;
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.problems.push(error.message);
      return undefined;
    }
  }

  private value(depthLeft: number): TemplateNode {
    this.skipBlanks();
    if (depthLeft === 0) throw this.unreadable(`the value is nested deeper than ${LARGEST_DEPTH} levels; make it flatter`);
    if (this.text.startsWith('{{', this.at)) return this.placeholder();
    const mark = this.text[this.at];
    if (mark === '{') return this.object(depthLeft);
    if (mark === '[') return this.list(depthLeft);
    return mark === '"' ? this.string() : this.scalar();
  }

  private placeholder(): TemplateNode {
    const reading = readPlaceholder(this.text, this.at, this.roots, this.place(this.at));
    // Without its end nobody knows where the value ends.
    if ('problem' in reading && !this.text.startsWith('}}', reading.end - 2)) throw new Unreadable(reading.problem);
    this.at = reading.end;
    if ('placeholder' in reading) return { kind: 'value', placeholder: reading.placeholder };
    this.problems.push(reading.problem);
    return { kind: 'literal', value: null };
  }

  private object(depthLeft: number): TemplateNode {
    const members = new Map<string, TemplateNode>();
    this.items('}', () => {
      if (this.text[this.at] !== '"') throw this.unreadable('a key in double quotes is expected');
      const start = this.at;
      const key = this.quoted();
      const problem = templateKeyProblem(key) ?? keyProblem(key) ?? (members.has(key) ? 'stands twice in its object; keep one' : undefined);
      if (problem) this.problems.push(`the key ${JSON.stringify(shortened(key, LONGEST_NAMED))} ${this.place(start)} ${problem}`);
      this.skipBlanks();
      if (this.text[this.at] !== ':') throw this.unreadable('":" is expected after a key');
      this.at += 1;
      members.set(key, this.value(depthLeft - 1));
    });
    return { kind: 'object', members: [...members] };
  }

  private list(depthLeft: number): TemplateNode {
    const items: TemplateNode[] = [];
    this.items(']', () => items.push(this.value(depthLeft - 1)));
    return { kind: 'list', items };
  }

  /** Reads what stands between the bracket here and `close`, item by item. */
  private items(close: string, item: () => void): void {
    this.at += 1;
    this.skipBlanks();
    if (this.text[this.at] === close) {
      this.at += 1;
      return;
    }
    for (;;) {
      this.skipBlanks();
      item();
      this.skipBlanks();
      const mark = this.text[this.at];
      if (mark !== ',' && mark !== close) throw this.unreadable(`"," or "${close}" is expected`);
      this.at += 1;
      if (mark === close) return;
    }
  }

  private string(): TemplateNode {
    const place = `in the text ${this.place(this.at)}`;
    const text = this.quoted();
    if (!isWellFormed(text)) this.problems.push(`half of a surrogate pair stands ${place}; give well-formed Unicode text`);
    return textNode(text, this.roots, () => place, this.problems);
  }

  private quoted(): string {
    let end = this.at + 1;
    while (end < this.text.length && this.text[end] !== '"') end += this.text[end] === '\\' ? 2 : 1;
    try {
      const text = JSON.parse(this.text.slice(this.at, end + 1)) as string;
      this.at = end + 1;
      return text;
    } catch {
      throw this.unreadable('the text is not a JSON string; close it with ", and escape " and \\ and line ends with \\');
    }
  }

  private scalar(): TemplateNode {
    const word = this.match(WORD);
    if (word) return { kind: 'literal', value: JSON.parse(word[0]) as boolean | null };
    const start = this.at;
    const number = this.match(NUMBER);
    if (!number) throw this.unreadable('a JSON value or {{path}} is expected');
    const value = Number(number[0]);
    if (!Number.isFinite(value)) this.problems.push(`the number ${this.place(start)} is too large; give one below 1.8e308`);
    const isWhole = number[1] === undefined && number[2] === undefined;
    if (isWhole && !Number.isSafeInteger(value)) this.problems.push(`the number ${this.place(start)} would lose digits; give a whole number below 2^53, or a text in double quotes`);
    return { kind: 'literal', value };
  }

  private skipBlanks(): void {
    while (this.at < this.text.length && BLANKS.includes(this.text[this.at] as string)) this.at += 1;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match) this.at += match[0].length;
    return match;
  }

  private unreadable(what: string): Unreadable {
    const found = this.at < this.text.length ? `${JSON.stringify(String.fromCodePoint(this.text.codePointAt(this.at) ?? 0))} stands` : 'the end is';
    return new Unreadable(`${found} ${this.place(this.at)}: ${what}`);
  }

  private place(index: number): string {
    return `at character ${index + 1}`;
  }
}
