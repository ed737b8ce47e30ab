import type { Violation } from './errors';
import { jsonDepth, jsonProblem, LARGEST_DEPTH, valueAt, type JsonValue } from './jsonValue';
import type { Placeholder } from './placeholders';
import { shortened } from './shortened';
import { LONGEST_NAMED, placeholdersOf, templateKeyProblem, textNode, type TemplateNode } from './templateNodes';
import { TemplateReader } from './templateReader';

/** A template that was read once: `{{path}}` placeholders stand for values, all else is fixed. */
export interface JsonTemplate {
  /** The field that it came from, for violations. */
  readonly field: string;
  readonly root: TemplateNode;
  readonly placeholders: readonly Placeholder[];
}

/** A template, or what is wrong with it. */
export type TemplateParse = { readonly template: JsonTemplate; readonly violations: readonly [] } | { readonly template: undefined; readonly violations: readonly Violation[] };

/** A rendered value, or why there is none. */
export type Rendering = { readonly value: JsonValue; readonly violations: readonly [] } | { readonly value: undefined; readonly violations: readonly Violation[] };

/** The most characters, as JSON, that the values have together that are put into all templates of one purpose. */
export const LARGEST_INSERTION = 262_144;

/** How much may still be put into templates. Those that are rendered for one purpose share one: beyond it every one of them is refused. */
export class InsertionRoom {
  private left = LARGEST_INSERTION;

  /** Whether nothing more may come. */
  get isExhausted(): boolean {
    return this.left < 0;
  }

  /** Takes up the place of so many characters. */
  take(characters: number): void {
    this.left -= characters;
  }
}

const MEANT_AS_JSON = /^(?:\{(?!\{)|\[|")/;
const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;

/** Reads a JSON text in which a bare `{{path}}` may also stand for a value. `roots` are the names that a path may begin with. */
export function parseJsonText(text: string, field: string, roots: readonly string[]): TemplateParse {
  const reader = new TemplateReader(text, roots);
  return parsed(reader.read(), reader.problems, field);
}

/** Reads a JSON value whose texts may hold placeholders. */
export function parseJsonValue(value: JsonValue, field: string, roots: readonly string[]): TemplateParse {
  const problem = jsonProblem(value);
  if (problem) return { template: undefined, violations: [{ field, description: problem }] };
  const problems: string[] = [];
  return parsed(nodeOf(value, '', roots, problems), problems, field);
}

/**
 * Reads a single value: JSON if it is meant as such (it begins with `{`, `[` or `"`, or is a number, true, false or null),
 * else a text, less the blanks around it. One whole placeholder keeps the type of its value.
 */
export function parseValueText(text: string, field: string, roots: readonly string[]): TemplateParse {
  const trimmed = text.trim();
  if (MEANT_AS_JSON.test(trimmed) || SCALAR.test(trimmed)) return parseJsonText(trimmed, field, roots);
  const problems = trimmed === '' ? ['is blank; write the value, for an empty text two double quotes'] : [];
  return parsed(textNode(trimmed, roots, (index) => `at character ${index + 1}`, problems), problems, field);
}

/**
 * Puts values into a template, as far as there is room. A value takes the place of one node, so it cannot add keys. A path without a value
 * is a violation named by the path.
 */
export function renderTemplate(template: JsonTemplate, scope: Readonly<Record<string, JsonValue>>, room: InsertionRoom): Rendering {
  const renderer = new Renderer(template.field, scope, room);
  const value = renderer.render(template.root, LARGEST_DEPTH);
  return renderer.violations.size > 0 ? { value: undefined, violations: [...renderer.violations.values()] } : { value, violations: [] };
}

function parsed(root: TemplateNode | undefined, problems: readonly string[], field: string): TemplateParse {
  if (root && problems.length === 0) return { template: { field, root, placeholders: placeholdersOf(root) }, violations: [] };
  return { template: undefined, violations: problems.map((description) => ({ field, description })) };
}

function nodeOf(value: JsonValue, path: string, roots: readonly string[], problems: string[]): TemplateNode {
  const place = shortened(path, LONGEST_NAMED);
  if (typeof value === 'string') return textNode(value, roots, () => (path ? `in ${place}` : 'in the text'), problems);
  if (typeof value !== 'object' || value === null) return { kind: 'literal', value };
  if (Array.isArray(value)) return { kind: 'list', items: value.map((item: JsonValue, at) => nodeOf(item, `${path}[${at}]`, roots, problems)) };
  const members = Object.entries(value).map(([key, member]: [string, JsonValue]) => {
    const inner = path ? `${path}.${key}` : key;
    const problem = templateKeyProblem(key);
    if (problem) problems.push(`the key ${JSON.stringify(shortened(key, LONGEST_NAMED))} ${path ? `in ${place} ` : ''}${problem}`);
    return [key, nodeOf(member, inner, roots, problems)] as const;
  });
  return { kind: 'object', members };
}

class Renderer {
  /** By field, so that a path that is missing twice is named once. */
  readonly violations = new Map<string, Violation>();
  private readonly found = new Map<string, { readonly value: JsonValue; readonly text: string }>();

  constructor(
    private readonly field: string,
    private readonly scope: Readonly<Record<string, JsonValue>>,
    private readonly room: InsertionRoom,
  ) {}

  render(node: TemplateNode, depthLeft: number): JsonValue {
    if (node.kind === 'literal') return node.value;
    if (node.kind === 'value') return this.whole(node.placeholder, depthLeft);
    if (node.kind === 'text') return node.parts.map((part) => (typeof part === 'string' ? part : this.inText(part))).join('');
    if (node.kind === 'list') return node.items.map((item) => this.render(item, depthLeft - 1));
    // fromEntries defines own properties, whatever their name.
    return Object.fromEntries(node.members.map(([key, member]) => [key, this.render(member, depthLeft - 1)]));
  }

  private whole(placeholder: Placeholder, depthLeft: number): JsonValue {
    const found = this.insert(placeholder);
    if (!found) return null;
    if (jsonDepth(found.value, depthLeft) > depthLeft) this.say(placeholder.path, `makes the value deeper than ${LARGEST_DEPTH} levels; give a flatter one`);
    return found.value;
  }

  private inText(placeholder: Placeholder): string {
    const found = this.insert(placeholder);
    if (!found) return '';
    return typeof found.value === 'string' ? found.value : found.text;
  }

  private insert(placeholder: Placeholder): { readonly value: JsonValue; readonly text: string } | undefined {
    const found = this.found.get(placeholder.path) ?? this.look(placeholder);
    if (!found) return undefined;
    this.room.take(found.text.length);
    return this.room.isExhausted ? this.full() : found;
  }

  private look(placeholder: Placeholder): { readonly value: JsonValue; readonly text: string } | undefined {
    const value = valueAt(this.scope, placeholder.steps);
    if (value === undefined) {
      this.say(placeholder.path, `has no value, but ${this.field} needs one ${placeholder.place}; give it, or take the placeholder out`);
      return undefined;
    }
    // To write a value costs time too: once it cannot be used any more none is written.
    if (this.room.isExhausted) return this.full();
    const found = { value, text: JSON.stringify(value) };
    this.found.set(placeholder.path, found);
    return found;
  }

  private full(): undefined {
    this.say(this.field, `would make more than ${LARGEST_INSERTION} characters of values in all templates together; give shorter values, or use them less often`);
  }

  private say(field: string, description: string): void {
    if (!this.violations.has(field)) this.violations.set(field, { field, description });
  }
}
