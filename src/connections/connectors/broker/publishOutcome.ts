/** What became of a message that we published. */
export type PublishOutcome =
  | { readonly kind: 'acknowledged' }
  /** The broker took it and nobody was there to get it. */
  | { readonly kind: 'no_subscribers' }
  /** `isTemporary`: it may be taken later. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string; readonly isTemporary: boolean };

const CODES: Readonly<Record<number, readonly [string, string]>> = {
  0x80: ['unspecified_error', 'the broker refuses it and does not say why'],
  0x83: ['implementation_specific_error', 'the broker refuses it for a reason of its own'],
  0x87: ['not_authorized', 'the broker does not let us publish on this topic; give the user of the connection the right to'],
  0x90: ['topic_name_invalid', 'the broker does not allow this topic'],
  0x91: ['packet_identifier_in_use', 'the broker holds the packet identifier for used'],
  0x95: ['packet_too_large', 'it is larger than the broker takes'],
  0x97: ['quota_exceeded', 'a quota of the broker is exceeded'],
  0x99: ['payload_format_invalid', 'the broker does not take the payload'],
};
const NO_SUBSCRIBERS = 0x10;
const FIRST_FAILURE = 0x80;
const QUOTA_EXCEEDED = 0x97;
const IDENTIFIER_IN_USE = 0x91;

/** The outcome that a PUBACK's reason code tells. */
export function outcomeOfReason(reason: number): PublishOutcome {
  if (reason === NO_SUBSCRIBERS) return { kind: 'no_subscribers' };
  if (reason < FIRST_FAILURE) return { kind: 'acknowledged' };
  const [code, message] = CODES[reason] ?? [`reason_${reason}`, `the broker refuses it with reason ${reason}`];
  return { kind: 'refused', code, message, isTemporary: reason === QUOTA_EXCEEDED || reason === IDENTIFIER_IN_USE };
}

/** It is larger than the broker said it takes. */
export function tooLarge(bytes: number, most: number): PublishOutcome {
  return { kind: 'refused', code: 'packet_too_large', message: `it is ${bytes} bytes, and the broker takes at most ${most}`, isTemporary: false };
}
