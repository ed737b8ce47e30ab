/** A text that somebody else wrote, as a message shows it: after `most` characters it is cut, and says how much is missing. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  // Not within a pair of surrogates: half of one cannot be sent.
  const kept = text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '');
  return `${kept}… (${text.length - kept.length} more characters)`;
}
