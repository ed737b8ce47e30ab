import { isUtf8 } from 'node:buffer';
import { throwIfAny, validationFailed } from '../../kernel/errors';
import { JsonScan } from './jsonScan';

const BYTE_ORDER_MARK = '\uFEFF';

/**
 * The value of a JSON text in UTF-8, of plain objects, lists and scalars. Throws `validation_failed`, which names the path, for what is no JSON,
 * and for what JSON.parse would take though it loses something: keys that are given twice, `__proto__`, NUL, half of a surrogate pair, numbers
 * that a double cannot hold, more than 32 levels.
 */
export function parseStrict(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw refused('is not UTF-8; send JSON in UTF-8');
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  if (text.startsWith(BYTE_ORDER_MARK)) throw refused('begins with a byte order mark; leave it out');
  throwIfAny(new JsonScan(text).run());
  return JSON.parse(text) as unknown;
}

function refused(description: string): Error {
  return validationFailed([{ field: '', description }]);
}
