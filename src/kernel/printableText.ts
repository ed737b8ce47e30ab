const VISIBLE = /[\p{L}\p{N}\p{P}\p{S}]/u;

/**
 * Checks whether a text contains a visible character: a letter, a digit or a symbol. The message for other texts is
 * NO_PRINTABLE_TEXT.
 */
export function hasPrintableText(text: string): boolean {
  return VISIBLE.test(text);
}

/** Message for a text without visible characters, as the end of a sentence. */
export const NO_PRINTABLE_TEXT = 'has no visible characters: use letters, digits or symbols';
