import { validationFailed } from '../kernel/errors';
import { hasPrintableText, NO_PRINTABLE_TEXT } from '../kernel/printableText';

const MAX_LENGTH = 255;

/**
 * Returns a name, trimmed. Throws `validation_failed` for `field` unless it has 1 to 255 characters, none of them a
 * control character and at least one of them visible.
 */
export function cleanName(text: string, field: string): string {
  const name = text.trim();
  const length = Array.from(name).length;
  if (length === 0 || length > MAX_LENGTH)
    throw validationFailed([{ field, description: `must have 1 to ${MAX_LENGTH} characters (got ${length})` }]);
  if (/\p{Cc}/u.test(name))
    throw validationFailed([{ field, description: 'contains a control character: use printable characters only' }]);
  if (!hasPrintableText(name)) throw validationFailed([{ field, description: NO_PRINTABLE_TEXT }]);
  return name;
}
