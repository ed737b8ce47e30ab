/** Bytes of a key. */
export const KEY_BYTES = 32;

/** The key in a text, white space around it aside; undefined for anything but 32 bytes in base64. */
export function findKeyIn(text: string): Buffer | undefined {
  const trimmed = text.trim();
  const key = Buffer.from(trimmed, 'base64');
  return key.length === KEY_BYTES && key.toString('base64').replace(/=$/, '') === trimmed.replace(/=$/, '') ? key : undefined;
}
