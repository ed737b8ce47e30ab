import { splitText, type Placeholder } from './placeholders';

/** The most characters that a message shows of a key or of the way to it. */
export const LONGEST_NAMED = 200;

/** A template as a tree: what is fixed stays fixed, and a value takes the place of one node. */
export type TemplateNode =
  | { readonly kind: 'literal'; readonly value: null | boolean | number | string }
  /** Becomes the value, whatever its type. */
  | { readonly kind: 'value'; readonly placeholder: Placeholder }
  /** Becomes one text; values are written into it. */
  | { readonly kind: 'text'; readonly parts: readonly (string | Placeholder)[] }
  | { readonly kind: 'list'; readonly items: readonly TemplateNode[] }
  | { readonly kind: 'object'; readonly members: readonly (readonly [string, TemplateNode])[] };

/** The node of a text: a value if it is one whole placeholder, else a literal or a text with values in it. Problems are added to `problems`. */
export function textNode(text: string, roots: readonly string[], placeAt: (index: number) => string, problems: string[]): TemplateNode {
  const parts = splitText(text, roots, placeAt, problems);
  const [first] = parts;
  if (parts.length === 1 && typeof first === 'object') return { kind: 'value', placeholder: first };
  if (parts.every((part) => typeof part === 'string')) return { kind: 'literal', value: text };
  return { kind: 'text', parts };
}

/** Why an object of a template may not have this key, as the end of a sentence about the key; undefined when it can. */
export function templateKeyProblem(key: string): string | undefined {
  return key.includes('{{') ? 'may not hold a placeholder; placeholders stand for values, keys are fixed' : undefined;
}

/** Every placeholder of a tree, in the order of the text. */
export function placeholdersOf(node: TemplateNode): readonly Placeholder[] {
  if (node.kind === 'literal') return [];
  if (node.kind === 'value') return [node.placeholder];
  if (node.kind === 'text') return node.parts.filter((part) => typeof part === 'object');
  if (node.kind === 'list') return node.items.flatMap(placeholdersOf);
  return node.members.flatMap(([, member]) => placeholdersOf(member));
}
