/**
 * A key prefix and twenty characters of a secret, which no other text contains by chance. The underscore may be encoded
 * as in HTML, JSON or mail.
 */
const KEY = /plr(?:_|\uff3f|&lowbar;|(?:&#x?|\\u|\\x|=)0{0,2}(?:5f|95);?)[0-9a-z]{20}/i;
/** A percent-encoded byte, as in URLs. */
const PERCENT_ESCAPE = /%([0-9a-f]{2})/gi;
const MAX_ENCODING_DEPTH = 3;
/**
 * Matches a key and its parts, in any case: a prefix (its underscore may be percent-encoded several times) with at
 * least six characters, an underscore with at least 20, or 40 characters without a prefix.
 */
const KEY_FRAGMENT = /plr(?:_|%(?:25)*5f)[\dA-Z%]{6,}|_[\dA-Z%]{20,}|[\dA-Z%]{40,}/gi;

/**
 * Checks whether a text contains something like an API key, complete or mistyped, even percent-encoded up to three
 * times. Such a text is neither stored nor repeated.
 */
export function containsApiKey(text: string): boolean {
  let decoded = text;
  for (let depth = 0; depth < MAX_ENCODING_DEPTH && decoded.includes('%'); depth++)
    decoded = decoded.replaceAll(PERCENT_ESCAPE, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  return KEY.test(text) || KEY.test(decoded);
}

/** Redacts anything in a path that could be a key or a part of one, for logs and error messages. */
export function redactApiKeys(path: string): string {
  return path.replaceAll(KEY_FRAGMENT, '...');
}
