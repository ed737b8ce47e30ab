const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

const createInvalidCharacterError = (message: string): Error =>
  Object.assign(new Error(message), { name: 'InvalidCharacterError' });

/**
 * Encodes a string of bytes (character codes 0 to 255) as Base64: 3 bytes become 4 characters of 6 bits each. Throws
 * InvalidCharacterError for other characters.
 */
export function btoa(value: unknown): string {
  const text = String(value);
  let encoded = '';
  for (let index = 0; index < text.length; index += 3) {
    const first = text.charCodeAt(index);
    const second = text.charCodeAt(index + 1);
    const third = text.charCodeAt(index + 2);
    if (first > 255 || second > 255 || third > 255)
      throw createInvalidCharacterError('btoa takes characters from 0 to 255 only');
    // Behind the end, charCodeAt returns NaN, which counts as 0 here.
    const bits = (first << 16) | (second << 8) | third;
    encoded += ALPHABET.charAt(bits >> 18) + ALPHABET.charAt((bits >> 12) & 63);
    encoded +=
      (index + 1 < text.length ? ALPHABET.charAt((bits >> 6) & 63) : '=') +
      (index + 2 < text.length ? ALPHABET.charAt(bits & 63) : '=');
  }
  return encoded;
}

/**
 * Decodes Base64, with 6 bits per character, to a string of bytes (character codes 0 to 255). White space is ignored,
 * and padding may be missing. Throws InvalidCharacterError.
 */
export function atob(value: unknown): string {
  const compact = String(value).replaceAll(/[\t\n\f\r ]+/g, '');
  const text = compact.length % 4 === 0 ? compact.replace(/={1,2}$/, '') : compact;
  if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) throw createInvalidCharacterError('atob takes Base64 only');
  let decoded = '';
  let bits = 0;
  let bitCount = 0; // the low bits of `bits` that are not decoded yet
  for (const char of text) {
    bits = ((bits << 6) | ALPHABET.indexOf(char)) & 0xff_ffff; // older bits are decoded
    bitCount += 6;
    if (bitCount < 8) continue;
    bitCount -= 8;
    decoded += String.fromCharCode((bits >> bitCount) & 255);
  }
  return decoded;
}
