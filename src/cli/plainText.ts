/** A text that somebody else wrote on one line, without what would steer the terminal; cut after `most` characters. */
export function plainText(text: string, most = 500): string {
  const plain = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => ({ '\n': '\\n', '\r': '\\r', '\t': '  ' })[character] ?? `\\u{${character.codePointAt(0)?.toString(16)}}`);
  return plain.length > most ? `${plain.slice(0, most)} … (${plain.length - most} characters more)` : plain;
}
