import {
  Composer,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  Parser,
  type Alias,
  type CST,
  type Node,
  type Pair,
} from 'yaml';
import type { Outcome } from './outcome';

const MAX_DEPTH = 64;
const TOO_DEEP = `is nested deeper than ${MAX_DEPTH} levels`;
/**
 * The parser holds one entry per open level, one for the document and one for a scalar. With more levels the composer
 * would overflow the stack.
 */
const MAX_OPEN_LEVELS = 2 * MAX_DEPTH;
/** What each value counts in addition to its characters: about its separators. */
const SIZE_PER_VALUE = 2;
/** Maximum size of a document after its aliases are expanded: characters, plus SIZE_PER_VALUE for each value. */
const MAX_EXPANDED_SIZE = 2 * 1024 * 1024;

/** How numbers are returned: as numbers, or as the text in the document (the version 1.10 is not 1.1). */
type Numbers = 'values' | 'as written';

/**
 * Reads a YAML document and returns its value, or what is wrong with it. Aliases are expanded within limits, `<<` is
 * merged, custom tags are ignored.
 */
export function readYaml(text: string, numbers: Numbers): Outcome<unknown> {
  const contents = parseContents(text);
  if ('problem' in contents) return contents;
  try {
    return { value: new NodeConverter(text, numbers).convert(contents.value, 0) };
  } catch (error) {
    if (error instanceof ExpansionError) return { problem: error.message };
    throw error;
  }
}

// The library's check for duplicate keys is quadratic, and its pretty errors are just as slow.
const COMPOSER_OPTIONS = {
  schema: 'core',
  uniqueKeys: false,
  prettyErrors: false,
  resolveKnownTags: false,
  logLevel: 'error',
} as const;

/** Parses the single document of a text. */
function parseContents(text: string): Outcome<unknown> {
  const originalLimit = Error.stackTraceLimit;
  // A text can have as many errors as characters, and the stack trace of each takes ten times as long as parsing.
  Error.stackTraceLimit = 0;
  try {
    const composer = new Composer(COMPOSER_OPTIONS);
    for (const token of readTokens(text)) {
      if (token === undefined) return { problem: TOO_DEEP };
      if (token.type === 'error') return toSyntaxProblem(text, token.message, token.offset);
      // The composer yields a document here only when another one begins; `end` below yields the last one.
      for (const { range } of composer.next(token))
        return toSyntaxProblem(text, 'Source contains multiple documents', range[2]);
    }
    const [document] = composer.end(true, text.length);
    const [error] = document?.errors ?? [];
    return error ? toSyntaxProblem(text, error.message, error.pos[0]) : { value: document?.contents };
  } finally {
    Error.stackTraceLimit = originalLimit;
  }
}

/** Yields the tokens of a text; the last one is undefined if the nesting is too deep. */
function* readTokens(text: string): Generator<CST.Token | undefined, void> {
  const parser = new Parser();
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    if (parser.stack.length > MAX_OPEN_LEVELS) {
      yield undefined;
      return;
    }
  }
  yield* parser.end();
}

/** Describes a syntax error with its line and column. */
function toSyntaxProblem(text: string, reason: string, index: number): Outcome<never> {
  return { problem: `is not valid YAML: ${reason} (${formatLocation(text, index)})` };
}

/** Returns the line and column of a character index, both from 1. */
function formatLocation(text: string, index: number): string {
  const before = text.slice(0, index);
  return `line ${before.split('\n').length}, column ${index - before.lastIndexOf('\n')}`;
}

/**
 * Lists the entries that `<<` merges into a mapping (YAML merge key): those of one mapping or of a list of mappings.
 * The list is reversed, so that the first mapping that has a key comes last and takes precedence.
 */
function listMergedEntries(mergeValue: unknown): [string, unknown][] {
  const mappings = [mergeValue].flat();
  return mappings.flatMap((mapping) => Object.entries(mapping ?? {})).toReversed();
}

/** Ends the conversion of a document that is nested too deeply, too large or invalid. */
class ExpansionError extends Error {}

/** Converts the nodes of one document to values. */
class NodeConverter {
  private readonly anchors = new Map<string, Node>();
  private remainingSize = MAX_EXPANDED_SIZE;
  /** The number of aliases that are being expanded, one inside the other; 0 in the document itself. */
  private aliasDepth = 0;

  constructor(
    private readonly text: string,
    private readonly numbers: Numbers,
  ) {}

  /** Converts a node and everything in it. `depth`: how many levels it is below the root. */
  convert(node: unknown, depth: number): unknown {
    if (depth > MAX_DEPTH) throw new ExpansionError(TOO_DEEP);
    this.consumeSize(SIZE_PER_VALUE);
    if (isAlias(node)) return this.resolveAlias(node, depth);
    this.rememberAnchor(node);
    if (isScalar(node)) return this.convertScalar(node.value, node.source);
    if (isSeq(node)) return node.items.map((item) => this.convert(item, depth + 1));
    return isMap(node) ? this.convertMap(node.items, depth) : null;
  }

  /** Returns the value of a scalar; a number as the text in the document if `numbers` asks for that. */
  private convertScalar(value: unknown, source: string | undefined): unknown {
    if (typeof value === 'string') this.consumeSize(value.length);
    return this.numbers === 'as written' && typeof value === 'number' ? (source ?? String(value)) : value;
  }

  /** Converts a mapping. Its own entries take precedence over the entries that `<<` merges. */
  private convertMap(pairs: readonly Pair[], depth: number): unknown {
    const ownEntries: [string, unknown][] = [];
    const mergedEntries: [string, unknown][][] = [];
    const keys = new Set<string>();
    for (const { key, value } of pairs) {
      const name = this.convertKey(key);
      const inner = this.convert(value, depth + 1);
      if (name === '<<') {
        // Not spread: a hostile value has more entries than a call can have arguments.
        mergedEntries.push(listMergedEntries(inner));
      } else if (keys.has(name)) {
        throw new ExpansionError(
          `has the key ${JSON.stringify(name)} twice in one object (${this.formatNodeLocation(key)})`,
        );
      } else {
        ownEntries.push([name, inner]);
      }
      keys.add(name);
    }
    // Of several entries with the same key, fromEntries keeps the last one.
    return Object.fromEntries([...mergedEntries.flat(), ...ownEntries]);
  }

  /** Returns the text of a key; numbers and other scalars as they are written. */
  private convertKey(node: unknown): string {
    this.rememberAnchor(node);
    if (isScalar(node)) {
      const { value, source } = node;
      const name = typeof value === 'string' ? value : (source ?? String(value));
      this.consumeSize(name.length);
      return name;
    }
    throw new ExpansionError(`has a key that is not a text (${this.formatNodeLocation(node)})`);
  }

  /**
   * Expands an alias (`*name`): converts the node of its anchor (`&name`) again, which counts towards the size and
   * depth limits.
   */
  private resolveAlias(alias: Alias, depth: number): unknown {
    const node = this.anchors.get(alias.source);
    if (!node)
      throw new ExpansionError(`uses the alias *${alias.source} before its anchor (${this.formatNodeLocation(alias)})`);
    this.aliasDepth += 1;
    const value = this.convert(node, depth + 1);
    this.aliasDepth -= 1;
    return value;
  }

  /**
   * Records the anchor of a node in the document itself. Nodes inside an expanded alias are skipped, so that the last
   * anchor of a name before an alias counts, by position in the text.
   */
  private rememberAnchor(node: unknown): void {
    if (this.aliasDepth === 0 && (isScalar(node) || isMap(node) || isSeq(node)) && node.anchor !== undefined)
      this.anchors.set(node.anchor, node);
  }

  /** Counts converted data; throws when the document expands to more than MAX_EXPANDED_SIZE. */
  private consumeSize(amount: number): void {
    this.remainingSize -= amount;
    if (this.remainingSize < 0)
      throw new ExpansionError('expands to too much data through its aliases: write the values out');
  }

  private formatNodeLocation(node: unknown): string {
    return formatLocation(this.text, (node as Partial<Node> | null)?.range?.[0] ?? 0);
  }
}
