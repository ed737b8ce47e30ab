import type { AttachRequest } from '../../../gen/gateway/v1/gateway_service';
import { validationFailed, type Violation } from '../../../kernel/errors';

/** Matches the path of a violation inside an entry of `known`, and captures the index of the entry. */
const KNOWN_ENTRY_PATH = /^hello\.known\[(\d+)\]\./;

// The reasons why messages, or entries of `known` in a Hello, are rejected, by message object. Validation runs before
// the handler and must not change the message; a weak map releases each reason together with its message.
const rejections = new WeakMap<object, string>();

/**
 * Records the violations of a message that can be rejected individually: a receipt, a result, or entries of `known` in
 * a Hello. Returns false for anything else: the stream must end.
 */
export function noteInvalid({ message }: AttachRequest, violations: readonly Violation[]): boolean {
  if (message?.$case === 'commandReceived' || message?.$case === 'commandResult') {
    recordViolations(message.value, violations);
    return true;
  }
  if (message?.$case !== 'hello') return false;
  const violationsByEntry = Map.groupBy(violations, ({ field }) => KNOWN_ENTRY_PATH.exec(field)?.[1]);
  if (violationsByEntry.has(undefined)) return false; // another part of the Hello is invalid
  for (const [index, entryViolations] of violationsByEntry) {
    recordViolations(message.value.known[Number(index)] as object, entryViolations);
  }
  return true;
}

/** Returns why a message or an entry of `known` is rejected: a code and a description. Undefined if it is valid. */
export function findRejection(message: object): string | undefined {
  return rejections.get(message);
}

/** Stores why a message is rejected, for findRejection. */
function recordViolations(message: object, violations: readonly Violation[]): void {
  const { reason, message: text } = validationFailed(violations);
  rejections.set(message, `${reason}: ${text}`);
}
