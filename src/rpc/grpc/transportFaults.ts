import { status } from '@grpc/grpc-js';
import { DomainError, validationFailed } from '../../kernel/errors';
import { callerGone, deadlineExceeded } from '../openCall';

/** What grpc-js found wrong with a call, as an error of ours; undefined where its own status says it as well. */
export function asFault({ code, details }: { code?: number | null; details?: string | null }): DomainError | undefined {
  const text = details ?? '';
  if (code === status.DEADLINE_EXCEEDED) return deadlineExceeded();
  if (code === status.INTERNAL) return internalFault(text);
  if (code !== status.RESOURCE_EXHAUSTED) return undefined;
  return text.startsWith('Sent') ? tooLarge('answer_too_large', 'ask for fewer records at once', ...sizesIn(text)) : messageTooLarge(...sizesIn(text));
}

/** A message has more bytes than its method takes. */
export function messageTooLarge(actual?: number | string, limit?: number | string): DomainError {
  return tooLarge('message_too_large', 'send less in one message', actual, limit);
}

function sizesIn(details: string): string[] {
  return details.match(/\d+/g) ?? [];
}

function tooLarge(reason: string, advice: string, actual?: number | string, limit?: number | string): DomainError {
  const sizes = limit ? ` (${actual} bytes; at most ${limit} are allowed)` : '';
  return new DomainError('too_large', reason, `the message is too large${sizes}; ${advice}`);
}

function internalFault(details: string): DomainError {
  if (details.startsWith('Invalid grpc-timeout')) return validationFailed([{ field: 'grpc-timeout', description: 'is not a timeout; send up to 8 digits and a unit (H, M, S, m, u, n)' }]);
  if (details.startsWith('Failed to decompress')) return validationFailed([{ field: '', description: 'the compressed message cannot be decompressed; compress it as grpc-encoding says' }]);
  if (details === 'Internal server error' || details.startsWith('Error writing message')) return callerGone(); // what was to be sent could not be written: the link is gone
  return new DomainError('internal', 'internal', details);
}
