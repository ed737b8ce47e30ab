/**
 * Formats untrusted text on one line: escapes control characters, so that they cannot control the terminal, and cuts
 * the text after `max` characters.
 */
export function toPlainText(text: string, max = 500): string {
  const plain = text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) =>
      ({ '\n': '\\n', '\r': '\\r', '\t': '  ' })[character] ?? `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
  return plain.length > max ? `${plain.slice(0, max)} … (${plain.length - max} more characters)` : plain;
}
