const HEX = /^(?:0x)?[0-9a-f]{2}(?:[\s:,-]*(?:0x)?[0-9a-f]{2})*$/i;

/**
 * Parses bytes written as hex digits (`01 28`, `0128`, `01:28`, `0x01, 0x28`) or base64 (both alphabets). Ambiguous
 * text is read as hex. Undefined: neither.
 */
export function parseBytes(text: string): number[] | undefined {
  const trimmed = text.trim();
  if (HEX.test(trimmed)) return [...Buffer.from(trimmed.replaceAll(/0x|[\s:,-]/gi, ''), 'hex')];
  const bytes = Buffer.from(trimmed, 'base64');
  return normalizeBase64(bytes.toString('base64')) === normalizeBase64(trimmed) ? [...bytes] : undefined;
}

/** Normalizes base64 to the standard alphabet without padding. */
function normalizeBase64(text: string): string {
  return text
    .replace(/={1,2}$/, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/');
}
