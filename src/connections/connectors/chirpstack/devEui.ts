const SEPARATORS = /^0x|[:\s-]/giu;
const DEV_EUI = /^[0-9a-f]{16}$/;

/**
 * Normalizes a DevEUI to 16 lower-case hexadecimal digits. Accepts upper case, a leading `0x`, and `:`, `-` or spaces
 * between digits. Undefined if the text is not a DevEUI.
 */
export function findDevEui(text: string): string | undefined {
  const digits = text.trim().replace(SEPARATORS, '').toLowerCase();
  return DEV_EUI.test(digits) ? digits : undefined;
}
