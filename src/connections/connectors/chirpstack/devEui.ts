const SEPARATORS = /^0x|[:\s-]/giu;
const DEV_EUI = /^[0-9a-f]{16}$/;

/** The one spelling of a DevEUI: 16 lower-case hexadecimal digits. Takes upper case, a leading `0x`, and digits parted by `:`, `-` or spaces. */
export function findDevEui(text: string): string | undefined {
  const digits = text.trim().replace(SEPARATORS, '').toLowerCase();
  return DEV_EUI.test(digits) ? digits : undefined;
}
