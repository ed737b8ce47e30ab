/** The beginning of a text: at most `most` characters, and not half of a pair of surrogates at its end, which cannot be stored or sent. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '');
}

/** A text that somebody else wrote, as a message shows it: after `most` characters it is cut, and says how much is missing. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const kept = cut(text, most);
  return `${kept}… (${text.length - kept.length} more characters)`;
}
