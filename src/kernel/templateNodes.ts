import { splitAtPlaceholders, type Placeholder } from './placeholders';

/** Maximum length of a key or a path in a message, in characters. */
export const MAX_NAME_LENGTH = 200;

/** A template as a tree: fixed parts stay fixed, and a value replaces one node. */
export type TemplateNode =
  | { readonly kind: 'literal'; readonly value: null | boolean | number | string }
  /** Is replaced by the value, of any type. */
  | { readonly kind: 'value'; readonly placeholder: Placeholder }
  /** Becomes one string with the values inserted. */
  | { readonly kind: 'text'; readonly parts: readonly (string | Placeholder)[] }
  | { readonly kind: 'list'; readonly items: readonly TemplateNode[] }
  | { readonly kind: 'object'; readonly members: readonly (readonly [string, TemplateNode])[] };

/**
 * Returns the node of a text: a value if the text is exactly one placeholder, otherwise a literal or a text with
 * placeholders. `roots`: the allowed first names of a placeholder path; `formatLocation`: formats the position of an
 * index for messages. Problems are added to `problems`.
 */
export function createTextNode(
  text: string,
  roots: readonly string[],
  formatLocation: (index: number) => string,
  problems: string[],
): TemplateNode {
  const parts = splitAtPlaceholders(text, roots, formatLocation, problems);
  const [first] = parts;
  if (parts.length === 1 && typeof first === 'object') return { kind: 'value', placeholder: first };
  if (parts.every((part) => typeof part === 'string')) return { kind: 'literal', value: text };
  return { kind: 'text', parts };
}

/**
 * Returns why an object of a template must not have this key, as the end of a sentence about the key; undefined if it
 * may.
 */
export function findTemplateKeyProblem(key: string): string | undefined {
  return key.includes('{{') ? 'must not contain a placeholder: placeholders replace values, keys are fixed' : undefined;
}

/** Returns every placeholder of a tree, in text order. */
export function listPlaceholders(node: TemplateNode): readonly Placeholder[] {
  if (node.kind === 'literal') return [];
  if (node.kind === 'value') return [node.placeholder];
  if (node.kind === 'text') return node.parts.filter((part) => typeof part === 'object');
  if (node.kind === 'list') return node.items.flatMap(listPlaceholders);
  return node.members.flatMap(([, member]) => listPlaceholders(member));
}
