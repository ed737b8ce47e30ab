/**
 * Returns at most `max` characters of a text, without half of a surrogate pair at the end, which cannot be stored or
 * sent.
 */
export function truncate(text: string, max: number): string {
  return text.length <= max ? text : text.slice(0, max).replace(/[\uD800-\uDBFF]$/, '');
}

/**
 * Truncates a text of unknown origin for a message: after `max` characters it is cut, and the number of missing
 * characters is appended.
 */
export function truncateForDisplay(text: string, max: number): string {
  if (text.length <= max) return text;
  const head = truncate(text, max);
  return `${head}… (${text.length - head.length} more characters)`;
}

/** Joins the first `max` texts, and says how many more there are. */
export function joinFirst(texts: readonly string[], max: number): string {
  if (texts.length <= max) return texts.join(', ');
  return `${texts.slice(0, max).join(', ')} and ${texts.length - max} more`;
}
