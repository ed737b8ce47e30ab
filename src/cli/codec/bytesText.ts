const HEX = /^(?:0x)?[0-9a-f]{2}(?:[\s:,-]*(?:0x)?[0-9a-f]{2})*$/i;

/** Bytes that are written as a text: hex digits (`01 28`, `0128`, `01:28`, `0x01, 0x28`), else base64 of both alphabets. What is both is hex. Undefined: it is neither. */
export function bytesOfText(text: string): number[] | undefined {
  const trimmed = text.trim();
  if (HEX.test(trimmed)) return [...Buffer.from(trimmed.replaceAll(/0x|[\s:,-]/gi, ''), 'hex')];
  const bytes = Buffer.from(trimmed, 'base64');
  return plainBase64(bytes.toString('base64')) === plainBase64(trimmed) ? [...bytes] : undefined;
}

/** Without padding, in the first of the two alphabets. */
function plainBase64(text: string): string {
  return text.replace(/={1,2}$/, '').replaceAll('-', '+').replaceAll('_', '/');
}
