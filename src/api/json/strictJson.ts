import { isUtf8 } from 'node:buffer';
import { throwIfAny, validationFailed } from '../../kernel/errors';
import { StrictJsonValidator } from './strictJsonValidator';

const BYTE_ORDER_MARK = '\uFEFF';

/**
 * Parses a JSON text in UTF-8 to plain objects, arrays and scalars. Throws `validation_failed` with the path for
 * invalid JSON, and for JSON that JSON.parse would accept with a loss or that is unsafe: duplicate keys, `__proto__`,
 * NUL, half of a surrogate pair, numbers that a double cannot represent, more than 32 levels, and too many names or
 * values.
 */
export function parseStrict(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw createError('is not UTF-8: send JSON in UTF-8');
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  if (text.startsWith(BYTE_ORDER_MARK)) throw createError('starts with a byte order mark: remove it');
  throwIfAny(new StrictJsonValidator(text).run());
  return JSON.parse(text) as unknown;
}

function createError(description: string): Error {
  return validationFailed([{ field: '', description }]);
}
