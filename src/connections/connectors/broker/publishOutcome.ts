/** The outcome of a published message. */
export type PublishOutcome =
  | { readonly kind: 'acknowledged' }
  /** It was sent with QoS 0, which no broker acknowledges: whether it arrived is unknown. */
  | { readonly kind: 'not_acknowledged' }
  /** The broker accepted the message, but no client was subscribed. */
  | { readonly kind: 'no_subscribers' }
  /** The broker rejected the message. `isTemporary`: the broker may accept it later. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string; readonly isTemporary: boolean };

/** The code and message of a rejection, by the reason code of the PUBACK. */
const REJECTIONS: Readonly<Record<number, readonly [code: string, message: string]>> = {
  0x80: ['unspecified_error', 'the broker rejects the message without a reason'],
  0x83: ['implementation_specific_error', 'the broker rejects the message for an implementation-specific reason'],
  0x87: [
    'not_authorized',
    'the broker does not allow publishing on this topic; grant the user of the connection permission to publish',
  ],
  0x90: ['topic_name_invalid', 'the broker does not allow this topic'],
  0x91: ['packet_identifier_in_use', 'the broker considers the packet identifier to be in use'],
  0x95: ['packet_too_large', 'the message is larger than the broker allows'],
  0x97: ['quota_exceeded', 'a quota of the broker is exceeded'],
  0x99: ['payload_format_invalid', 'the broker does not accept the payload format'],
};
// Reason codes of an MQTT 5 PUBACK. Codes from FIRST_FAILURE on mean that the message was rejected.
const NO_SUBSCRIBERS = 0x10;
const FIRST_FAILURE = 0x80;
const QUOTA_EXCEEDED = 0x97;
const IDENTIFIER_IN_USE = 0x91;

/** Returns the outcome for the reason code of a PUBACK. */
export function getReasonOutcome(reason: number): PublishOutcome {
  if (reason === NO_SUBSCRIBERS) return { kind: 'no_subscribers' };
  if (reason < FIRST_FAILURE) return { kind: 'acknowledged' };
  const [code, message] = REJECTIONS[reason] ?? [
    `reason_${reason}`,
    `the broker rejects the message with reason code ${reason}`,
  ];
  return { kind: 'refused', code, message, isTemporary: reason === QUOTA_EXCEEDED || reason === IDENTIFIER_IN_USE };
}

/** The outcome of a command with QoS 1 if the broker supports only QoS 0. */
export const QOS_NOT_SUPPORTED: PublishOutcome = {
  kind: 'refused',
  code: 'qos_not_supported',
  message:
    'the broker accepts only QoS 0, and the connection publishes commands with QoS 1; allow QoS 1 at the broker, or set commandQos to 0',
  isTemporary: false,
};

/** Returns the outcome of a message that exceeds the maximum packet size of the broker. */
export function createTooLargeOutcome(bytes: number, max: number): PublishOutcome {
  return {
    kind: 'refused',
    code: 'packet_too_large',
    message: `the message has ${bytes} bytes, and the broker accepts at most ${max}`,
    isTemporary: false,
  };
}
