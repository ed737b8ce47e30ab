/**
 * Returns the value of a header that must have one value; undefined if it is missing or empty. A client and a proxy may
 * both set it: equal values count as one. Different values are joined by a comma, so that they are rejected as invalid.
 * `values`: the values as they arrived; HTTP joins repeated headers with a comma, too. Blanks around them do not count.
 */
export function mergeRepeated(values: readonly string[]): string | undefined {
  const texts = values.flatMap((value) => value.split(',')).map((text) => text.trim());
  return [...new Set(texts)].join(',') || undefined;
}
