import { status } from '@grpc/grpc-js';
import { DomainError, validationFailed } from '../../kernel/errors';
import { clientCancelled, deadlineExceeded } from '../pipeline/activeCall';

/**
 * Converts an error status of grpc-js to a DomainError; undefined if the status needs no conversion. RESOURCE_EXHAUSTED
 * means a message above the size limit; the text starts with `Sent` for a response and with `Received` for a request.
 */
export function toTransportError({
  code,
  details,
}: {
  code?: number | null;
  details?: string | null;
}): DomainError | undefined {
  const text = details ?? '';
  if (code === status.DEADLINE_EXCEEDED) return deadlineExceeded();
  if (code === status.INTERNAL) return toInternalTransportError(text);
  if (code !== status.RESOURCE_EXHAUSTED) return undefined;
  return text.startsWith('Sent')
    ? tooLarge('answer_too_large', 'request fewer records at a time', ...parseSizes(text))
    : messageTooLarge(...parseSizes(text));
}

/** Creates the error for a request message that is larger than the limit of its method, in bytes. */
export function messageTooLarge(actual?: number | string, limit?: number | string): DomainError {
  return tooLarge('message_too_large', 'send less data in one message', actual, limit);
}

/** Returns the actual size and the limit, in bytes, which are the only numbers in a message of grpc-js. */
function parseSizes(details: string): string[] {
  return details.match(/\d+/g) ?? [];
}

/** Creates the error for a message above a limit. Both sizes are in bytes; without them the text names none. */
function tooLarge(reason: string, advice: string, actual?: number | string, limit?: number | string): DomainError {
  const sizes = limit ? ` (${actual} bytes, maximum ${limit})` : '';
  return new DomainError('too_large', reason, `the message is too large${sizes}: ${advice}`);
}

/** Converts an INTERNAL status of grpc-js, whose cause only the text shows. */
function toInternalTransportError(details: string): DomainError {
  if (details.startsWith('Invalid grpc-timeout'))
    return validationFailed([
      { field: 'grpc-timeout', description: 'must be up to 8 digits and a unit (H, M, S, m, u or n)' },
    ]);
  if (details.startsWith('Failed to decompress'))
    return validationFailed([
      { field: '', description: 'the message cannot be decompressed: compress it as stated in grpc-encoding' },
    ]);
  // The response could not be written, because the connection is closed.
  if (details === 'Internal server error' || details.startsWith('Error writing message')) return clientCancelled();
  return new DomainError('internal', 'internal', details);
}
