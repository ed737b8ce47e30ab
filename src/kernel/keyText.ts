/** Twenty digits of a secret: nobody writes that by chance. */
const KEY = /plr_[0-9A-Za-z]{20}/;

/** Whether a text holds what looks like an API key, mistyped or whole: such a text is neither kept nor repeated. */
export function holdsKey(text: string): boolean {
  return KEY.test(text);
}
