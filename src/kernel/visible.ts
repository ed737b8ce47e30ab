const VISIBLE = /[\p{L}\p{N}\p{P}\p{S}]/u;

/** Whether a text holds anything that can be seen: a letter, a digit or a sign. What is wrong otherwise is NOTHING_VISIBLE. */
export function isVisible(text: string): boolean {
  return VISIBLE.test(text);
}

/** The end of a sentence about a text that nobody can see. */
export const NOTHING_VISIBLE = 'holds nothing that can be seen; give letters, digits or signs';
