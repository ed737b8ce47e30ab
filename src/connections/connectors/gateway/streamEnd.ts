import { DomainError } from '../../../kernel/errors';

/** Returns the reason of a domain error; `internal` for an unknown error. */
export function findReason(error: unknown): string {
  return error instanceof DomainError ? error.reason : 'internal';
}

/** What the end of a stream by the gateway means, by reason; the general messages are about calls of clients. */
const STREAM_ENDS: Readonly<Record<string, string>> = {
  cancelled: 'the gateway cancelled its stream',
  deadline_exceeded: 'the deadline that the gateway set for its stream has passed: attach without a deadline',
};

/** Returns the message of a domain error. Unknown errors are only described in the log. */
export function formatMessage(error: unknown): string {
  if (!(error instanceof DomainError)) return 'see the log of the server';
  return STREAM_ENDS[error.reason] ?? error.message;
}
