import { validationFailed } from '../kernel/errors';
import { isVisible, NOTHING_VISIBLE } from '../kernel/visible';

const LONGEST = 255;

/** A name from the command line, trimmed. Throws `validation_failed` on `field` unless it has 1 to 255 characters no control characters, and something to be seen. */
export function cleanName(text: string, field: string): string {
  const name = text.trim();
  const length = Array.from(name).length;
  if (length === 0 || length > LONGEST) throw validationFailed([{ field, description: `has ${length} characters; give 1 to ${LONGEST}` }]);
  if (/\p{Cc}/u.test(name)) throw validationFailed([{ field, description: 'holds a control character; give printable text' }]);
  if (!isVisible(name)) throw validationFailed([{ field, description: NOTHING_VISIBLE }]);
  return name;
}
