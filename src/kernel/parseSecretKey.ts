/** Length of a key in bytes. */
export const KEY_BYTES = 32;

/** Reads a key of 32 bytes in base64, surrounded by optional white space; undefined if the text is anything else. */
export function parseSecretKey(text: string): Buffer | undefined {
  const trimmed = text.trim();
  const key = Buffer.from(trimmed, 'base64');
  // Buffer.from skips characters that are not base64, so only encoding the key again shows whether the text is valid.
  const isBase64 = removePadding(key.toString('base64')) === removePadding(trimmed);
  return key.length === KEY_BYTES && isBase64 ? key : undefined;
}

function removePadding(base64: string): string {
  return base64.replace(/=$/, '');
}
