const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const invalid = (what: string): Error => Object.assign(new Error(what), { name: 'InvalidCharacterError' });

/** Base64 of a text whose characters are bytes. Throws InvalidCharacterError for others. */
export function btoa(value: unknown): string {
  const text = String(value);
  let out = '';
  for (let at = 0; at < text.length; at += 3) {
    const a = text.charCodeAt(at);
    const b = text.charCodeAt(at + 1);
    const c = text.charCodeAt(at + 2);
    if (a > 255 || b > 255 || c > 255) throw invalid('btoa takes characters from 0 to 255 only');
    const bits = (a << 16) | (b << 8) | c; // NaN behind the end counts as 0 here
    out += LETTERS.charAt(bits >> 18) + LETTERS.charAt((bits >> 12) & 63);
    out += (at + 1 < text.length ? LETTERS.charAt((bits >> 6) & 63) : '=') + (at + 2 < text.length ? LETTERS.charAt(bits & 63) : '=');
  }
  return out;
}

/** The text of bytes that a Base64 text stands for; white space is skipped, padding may be missing. Throws InvalidCharacterError. */
export function atob(value: unknown): string {
  const packed = String(value).replaceAll(/[\t\n\f\r ]+/g, '');
  const text = packed.length % 4 === 0 ? packed.replace(/={1,2}$/, '') : packed;
  if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) throw invalid('atob takes Base64 only');
  let out = '';
  let bits = 0;
  let held = 0;
  for (const letter of text) {
    bits = ((bits << 6) | LETTERS.indexOf(letter)) & 0xff_ffff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += String.fromCharCode((bits >> held) & 255);
  }
  return out;
}
