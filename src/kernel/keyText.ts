/** Twenty digits of a secret: nobody writes that by chance. The underscore also as HTML, JSON, or mail writes it. */
const KEY = /plr(?:_|\uff3f|&lowbar;|(?:&#x?|\\u|\\x|=)0{0,2}(?:5f|95);?)[0-9a-z]{20}/i;
const ESCAPE = /%([0-9a-f]{2})/gi;
const MOST_TIMES_ENCODED = 3;
/** A part of one too, however its letters were written. */
const LIKE_A_KEY = /plr(?:_|%(?:25)*5f)[\dA-Z%]{6,}|_[\dA-Z%]{20,}|[\dA-Z%]{40,}/gi;

/** Whether a text holds what looks like an API key, mistyped or whole, however its letters were written: such a text is neither kept nor repeated. */
export function holdsKey(text: string): boolean {
  let read = text;
  for (let times = 0; times < MOST_TIMES_ENCODED && read.includes('%'); times++) read = read.replaceAll(ESCAPE, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  return KEY.test(text) || KEY.test(read);
}

/** A path as the log and the caller are told of it: without what could be a key, or a part of one. */
export function withoutKeys(path: string): string {
  return path.replaceAll(LIKE_A_KEY, '...');
}
