import type { Violation } from './errors';
import { getJsonDepth, findJsonProblem, MAX_DEPTH, getValueAtPath, type JsonValue } from './jsonValue';
import type { Placeholder } from './placeholders';
import { truncateForDisplay } from './truncate';
import {
  MAX_NAME_LENGTH,
  listPlaceholders,
  findTemplateKeyProblem,
  createTextNode,
  type TemplateNode,
} from './templateNodes';
import { TemplateParser } from './templateParser';

/** A parsed template: `{{path}}` placeholders are replaced by values, everything else is fixed. */
export interface JsonTemplate {
  /** The field that holds the template, for violations. */
  readonly field: string;
  readonly root: TemplateNode;
  readonly placeholders: readonly Placeholder[];
}

/** A template, or what is wrong with it. */
export type TemplateParseResult =
  | { readonly template: JsonTemplate; readonly violations: readonly [] }
  | { readonly template: undefined; readonly violations: readonly Violation[] };

/** A rendered value, or why rendering failed. */
type RenderResult =
  | { readonly value: JsonValue; readonly violations: readonly [] }
  | { readonly value: undefined; readonly violations: readonly Violation[] };

/** Maximum total length of the values inserted into all templates of one operation, in characters of JSON. */
export const MAX_INSERTION_LENGTH = 262_144;

/**
 * The number of characters that may still be inserted, shared by all templates of one operation. Once it is used up,
 * rendering any of these templates fails.
 */
export class InsertionBudget {
  private remaining = MAX_INSERTION_LENGTH;

  /** Whether the limit is exceeded. */
  get isExhausted(): boolean {
    return this.remaining < 0;
  }

  /** Subtracts characters from the remaining length. The renderer checks `isExhausted` after each call. */
  consume(characters: number): void {
    this.remaining -= characters;
  }
}

// A text that starts with `{{` is a placeholder, not an object.
const JSON_START = /^(?:\{(?!\{)|\[|")/;
const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;

/**
 * Parses a JSON text in which a bare `{{path}}` may replace a value. `field`: the field to name in violations; `roots`:
 * the allowed first names of a path, for example `params`.
 */
export function parseJsonText(text: string, field: string, roots: readonly string[]): TemplateParseResult {
  const parser = new TemplateParser(text, roots);
  const root = parser.parse(); // adds to the problems
  return toParseResult(root, parser.problems, field);
}

/** Parses a JSON value whose strings may contain placeholders. */
export function parseJsonValue(value: JsonValue, field: string, roots: readonly string[]): TemplateParseResult {
  const problem = findJsonProblem(value);
  if (problem) return { template: undefined, violations: [{ field, description: problem }] };
  const problems: string[] = [];
  return toParseResult(buildNode(value, '', roots, problems), problems, field);
}

/**
 * Parses a single value: JSON if it looks like JSON (it starts with `{`, `[` or `"`, or is a number, true, false or
 * null), otherwise a trimmed string. A string that is exactly one placeholder preserves the type of its value.
 */
export function parseValueText(text: string, field: string, roots: readonly string[]): TemplateParseResult {
  const trimmed = text.trim();
  if (JSON_START.test(trimmed) || SCALAR.test(trimmed)) return parseJsonText(trimmed, field, roots);
  const problems = trimmed === '' ? ['is blank: enter a value, or "" for an empty text'] : [];
  return toParseResult(
    createTextNode(trimmed, roots, (index) => `at character ${index + 1}`, problems),
    problems,
    field,
  );
}

/**
 * Inserts values into a template. `values` are the values by the first name of a path: `{{params.level}}` reads
 * `values.params.level`. A value replaces one node of the template, so it cannot add keys. Violations: a path without a
 * value (named by the path), a value that nests too deeply, and an exhausted budget.
 */
export function renderTemplate(
  template: JsonTemplate,
  values: Readonly<Record<string, JsonValue>>,
  budget: InsertionBudget,
): RenderResult {
  const renderer = new Renderer(template.field, values, budget);
  const value = renderer.render(template.root, MAX_DEPTH);
  return renderer.violations.size > 0
    ? { value: undefined, violations: [...renderer.violations.values()] }
    : { value, violations: [] };
}

/** Returns the template, or one violation of the field for each problem. */
function toParseResult(
  root: TemplateNode | undefined,
  problems: readonly string[],
  field: string,
): TemplateParseResult {
  if (root && problems.length === 0)
    return { template: { field, root, placeholders: listPlaceholders(root) }, violations: [] };
  return { template: undefined, violations: problems.map((description) => ({ field, description })) };
}

/**
 * Converts a JSON value to a template node. `path` is its position in the whole value, for messages (empty for the
 * value itself); `roots`: the allowed first names of a placeholder path. Problems are added to `problems`.
 */
function buildNode(value: JsonValue, path: string, roots: readonly string[], problems: string[]): TemplateNode {
  const location = truncateForDisplay(path, MAX_NAME_LENGTH);
  if (typeof value === 'string')
    return createTextNode(value, roots, () => (path ? `in ${location}` : 'in the text'), problems);
  if (typeof value !== 'object' || value === null) return { kind: 'literal', value };
  if (Array.isArray(value)) {
    return {
      kind: 'list',
      items: value.map((item: JsonValue, index) => buildNode(item, `${path}[${index}]`, roots, problems)),
    };
  }
  const members = Object.entries(value).map(([key, member]: [string, JsonValue]) => {
    const memberPath = path ? `${path}.${key}` : key;
    const problem = findTemplateKeyProblem(key);
    if (problem) {
      const shownKey = JSON.stringify(truncateForDisplay(key, MAX_NAME_LENGTH));
      problems.push(`the key ${shownKey} ${path ? `in ${location} ` : ''}${problem}`);
    }
    return [key, buildNode(member, memberPath, roots, problems)] as const;
  });
  return { kind: 'object', members };
}

/** The value of a placeholder, and its JSON text. */
interface FoundValue {
  readonly value: JsonValue;
  readonly text: string;
}

/**
 * Renders one template. Violations are collected, so that all of them are reported at once; the rendered value is
 * unusable if there are any.
 */
class Renderer {
  /** Keyed by field, so that a path that is missing twice is reported once. */
  readonly violations = new Map<string, Violation>();
  private readonly foundByPath = new Map<string, FoundValue>();

  constructor(
    private readonly field: string,
    private readonly values: Readonly<Record<string, JsonValue>>,
    private readonly budget: InsertionBudget,
  ) {}

  /** Returns the rendered value of a node. `depthLeft`: how many levels the value may still have. */
  render(node: TemplateNode, depthLeft: number): JsonValue {
    if (node.kind === 'literal') return node.value;
    if (node.kind === 'value') return this.renderValue(node.placeholder, depthLeft);
    if (node.kind === 'text')
      return node.parts.map((part) => (typeof part === 'string' ? part : this.renderText(part))).join('');
    if (node.kind === 'list') return node.items.map((item) => this.render(item, depthLeft - 1));
    // fromEntries defines own properties, even for names such as __proto__.
    return Object.fromEntries(node.members.map(([key, member]) => [key, this.render(member, depthLeft - 1)]));
  }

  /**
   * Returns the value of a placeholder that is a value of its own, with its type; null if it has none or exceeds the
   * budget. A value that is too deep is only reported: the whole result is discarded then.
   */
  private renderValue(placeholder: Placeholder, depthLeft: number): JsonValue {
    const found = this.resolveWithinBudget(placeholder);
    if (!found) return null;
    if (getJsonDepth(found.value, depthLeft) > depthLeft)
      this.addViolation(placeholder.path, `makes the value deeper than ${MAX_DEPTH} levels: use a flatter one`);
    return found.value;
  }

  /**
   * Returns the text that replaces a placeholder inside a longer text: a string as it is, any other value as JSON.
   * Returns an empty string if there is a violation, because the whole result is discarded then.
   */
  private renderText(placeholder: Placeholder): string {
    const found = this.resolveWithinBudget(placeholder);
    if (!found) return '';
    return typeof found.value === 'string' ? found.value : found.text;
  }

  /**
   * Finds the value of a placeholder and subtracts its length from the budget. Each insertion counts, even of the same
   * value. Returns undefined, with a violation, if there is no value or the budget is exhausted.
   */
  private resolveWithinBudget(placeholder: Placeholder): FoundValue | undefined {
    const found = this.foundByPath.get(placeholder.path) ?? this.findValue(placeholder);
    if (!found) return undefined;
    this.budget.consume(found.text.length);
    return this.budget.isExhausted ? this.reportExhaustedBudget() : found;
  }

  /**
   * Finds the value of a placeholder and its JSON text, which is formatted only once per path. Returns undefined, with
   * a violation, if there is no value.
   */
  private findValue(placeholder: Placeholder): FoundValue | undefined {
    const value = getValueAtPath(this.values, placeholder.steps);
    if (value === undefined) {
      this.addViolation(
        placeholder.path,
        `has no value, but ${this.field} needs one ${placeholder.location}: set it, or remove the placeholder`,
      );
      return undefined;
    }
    // Rendering costs time: stop as soon as the result is unusable.
    if (this.budget.isExhausted) return this.reportExhaustedBudget();
    const found = { value, text: JSON.stringify(value) };
    this.foundByPath.set(placeholder.path, found);
    return found;
  }

  /** Adds the violation of an exhausted budget, once per template. */
  private reportExhaustedBudget(): undefined {
    this.addViolation(
      this.field,
      `would insert more than ${MAX_INSERTION_LENGTH} characters of values into all templates together: use shorter values, or fewer placeholders`,
    );
  }

  private addViolation(field: string, description: string): void {
    if (!this.violations.has(field)) this.violations.set(field, { field, description });
  }
}
