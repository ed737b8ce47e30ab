import { validationFailed } from '../kernel/errors';

const LONGEST = 255;

/** A name from the command line, trimmed. Throws `validation_failed` on `field` unless it has 1 to 255 characters no control characters, and something to be seen. */
export function cleanName(text: string, field: string): string {
  const name = text.trim();
  const length = Array.from(name).length;
  if (length === 0 || length > LONGEST) throw validationFailed([{ field, description: `has ${length} characters; give 1 to ${LONGEST}` }]);
  if (/\p{Cc}/u.test(name)) throw validationFailed([{ field, description: 'holds a control character; give printable text' }]);
  if (!/[\p{L}\p{N}\p{P}\p{S}]/u.test(name)) throw validationFailed([{ field, description: 'holds nothing that can be seen; give letters, digits or signs' }]);
  return name;
}
