import { Composer, isAlias, isMap, isScalar, isSeq, Parser, type Alias, type Node, type Pair } from 'yaml';
import type { Outcome } from './outcome';

const DEEPEST = 64;
/** What a document may unfold to by its aliases: characters, and two for each value. */
const LARGEST = 2 * 1024 * 1024;
// The parser takes seconds for a megabyte of these, and then runs out of stack.
const TOO_DEEP = /[[{](?:\s*[[{]){99}/;

/** How numbers are answered: as their values, or as the texts that they were written as (a version 1.10 is not 1.1). */
export type Numbers = 'values' | 'as written';

/** The value of a YAML document: aliases unfolded within bounds, `<<` merged, tags of one's own without a meaning. */
export function readYaml(text: string, numbers: Numbers): Outcome<unknown> {
  if (TOO_DEEP.test(text)) return { problem: `is nested deeper than ${DEEPEST} levels` };
  const contents = contentsOf(text);
  if ('problem' in contents) return contents;
  try {
    return { value: new Unfolding(text, numbers).value(contents.value, 0) };
  } catch (error) {
    if (error instanceof Unusable) return { problem: error.message };
    throw error;
  }
}

// Its own check for equal keys compares each with each; its pretty errors cost as much again for each.
const OPTIONS = { schema: 'core', uniqueKeys: false, prettyErrors: false, resolveKnownTags: false, logLevel: 'error' } as const;

/** What the one document of a text consists of. */
function contentsOf(text: string): Outcome<unknown> {
  const limit = Error.stackTraceLimit;
  // A text may have as many errors as characters, and to find out where the parser made each takes ten times as long as parsing.
  Error.stackTraceLimit = 0;
  try {
    const composer = new Composer(OPTIONS);
    for (const token of new Parser().parse(text)) {
      if (token.type === 'error') return noYaml(text, token.message, token.offset);
      for (const { range } of composer.next(token)) return noYaml(text, 'Source contains multiple documents', range[2]);
    }
    const [document] = composer.end(true, text.length);
    const [error] = document?.errors ?? [];
    return error ? noYaml(text, error.message, error.pos[0]) : { value: document?.contents };
  } finally {
    Error.stackTraceLimit = limit;
  }
}

function noYaml(text: string, reason: string, at: number): Outcome<never> {
  return { problem: `is no YAML: ${reason} (${place(text, at)})` };
}

function place(text: string, at: number): string {
  const before = text.slice(0, at);
  return `line ${before.split('\n').length}, column ${at - before.lastIndexOf('\n')}`;
}

/** Ends an unfolding. */
class Unusable extends Error {}

/** Turns the nodes of one document into values. */
class Unfolding {
  private readonly anchors = new Map<string, Node>();
  private left = LARGEST;
  /** How many aliases deep. */
  private inAlias = 0;

  constructor(
    private readonly text: string,
    private readonly numbers: Numbers,
  ) {}

  value(node: unknown, depth: number): unknown {
    if (depth > DEEPEST) throw new Unusable(`is nested deeper than ${DEEPEST} levels`);
    this.spend(2);
    if (isAlias(node)) return this.unfold(node, depth);
    this.remember(node);
    if (isScalar(node)) return this.scalar(node.value, node.source);
    if (isSeq(node)) return node.items.map((item) => this.value(item, depth + 1));
    return isMap(node) ? this.table(node.items, depth) : null;
  }

  private scalar(value: unknown, source: string | undefined): unknown {
    if (typeof value === 'string') this.spend(value.length);
    return this.numbers === 'as written' && typeof value === 'number' ? (source ?? String(value)) : value;
  }

  private table(pairs: readonly Pair[], depth: number): unknown {
    const entries: [string, unknown][] = [];
    const merged: [string, unknown][][] = [];
    const seen = new Set<string>();
    for (const { key, value } of pairs) {
      const name = this.key(key);
      const inner = this.value(value, depth + 1);
      if (name === '<<') merged.push([inner].flat().flatMap((table) => Object.entries(table ?? {})).toReversed());
      else if (seen.has(name)) throw new Unusable(`has the key ${JSON.stringify(name)} twice in one place (${this.placeOf(key)})`);
      else entries.push([name, inner]);
      seen.add(name);
    }
    return Object.fromEntries([...merged.flat(), ...entries]);
  }

  private key(node: unknown): string {
    this.remember(node);
    if (isScalar(node)) {
      const { value, source } = node;
      const name = typeof value === 'string' ? value : (source ?? String(value));
      this.spend(name.length);
      return name;
    }
    throw new Unusable(`has a key that is no text (${this.placeOf(node)})`);
  }

  private unfold(alias: Alias, depth: number): unknown {
    const node = this.anchors.get(alias.source);
    if (!node) throw new Unusable(`has the alias *${alias.source} without an anchor before it (${this.placeOf(alias)})`);
    this.inAlias += 1;
    const value = this.value(node, depth + 1);
    this.inAlias -= 1;
    return value;
  }

  /** The last anchor of a name counts, by its place in the text: not by when it is unfolded again. */
  private remember(node: unknown): void {
    if (this.inAlias === 0 && (isScalar(node) || isMap(node) || isSeq(node)) && node.anchor !== undefined) this.anchors.set(node.anchor, node);
  }

  private spend(amount: number): void {
    this.left -= amount;
    if (this.left < 0) throw new Unusable('unfolds to far more than it holds, by its aliases; write out what is meant');
  }

  private placeOf(node: unknown): string {
    return place(this.text, (node as Partial<Node> | null)?.range?.[0] ?? 0);
  }
}
