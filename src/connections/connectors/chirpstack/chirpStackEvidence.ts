import { truncateForDisplay } from '../../../kernel/truncate';
import type { Evidence } from '../../connector';
import type { AckEvent, DeviceClass, LogEvent, TxAckEvent } from './chirpStackEvent';
import { CLOCK } from './chirpStackUplinks';

/** The properties of a frame that evidence needs. */
export interface Frame {
  readonly deduplicationId: string;
  /** Its arrival time, from MonotonicTimestamps. */
  readonly receivedAt: number;
  /** On the clock of the network server; undefined if not reported. */
  readonly time: number | undefined;
  readonly fCnt: number;
  /** The device address of its session; undefined if not reported. */
  readonly devAddr: string | undefined;
  /** Whether the network server decoded its payload; undefined if it has none. */
  readonly isDecoded: boolean | undefined;
}

/** Half the minimum difference between two timestamps of MonotonicTimestamps, so that the result is unique. */
const HALF_TIMESTAMP_STEP = 2 ** -11;
const MAX_MESSAGE_LENGTH = 500;

/**
 * Returns the evidence of a txack: a gateway accepted the downlink. Class A: it was sent in the receive window of the
 * last frame.
 */
export function toTxAckEvidence(
  event: TxAckEvent,
  receivedAt: number,
  deviceClass: DeviceClass,
  lastFrame: Frame | undefined,
): Evidence {
  const windowFrame = deviceClass === 'A' ? lastFrame : undefined;
  return {
    kind: 'transport_ok',
    time: event.time,
    clock: CLOCK,
    receivedAt,
    fCnt: windowFrame?.fCnt,
    devAddr: windowFrame?.devAddr,
  };
}

/**
 * Returns the evidence of an ack event. `frame`: the frame that contained the acknowledgement, if known. Its content is
 * newer than the acknowledged downlink, so the evidence gets a time just before that of the frame.
 */
export function toAckEvidence(
  event: AckEvent,
  receivedAt: number,
  deviceClass: DeviceClass,
  frame: Frame | undefined,
): Evidence {
  const outcome: Evidence = event.acknowledged
    ? { kind: 'ack' }
    : { kind: 'no_answer', code: 'no_ack', message: 'the network server received no acknowledgement from the device' };
  if (!frame) return { ...outcome, time: event.time, clock: CLOCK, receivedAt };
  // The earlier of both times: the acknowledgement must sort before the content of its frame.
  const time = frame.time === undefined ? undefined : Math.min(event.time ?? frame.time, frame.time - 1);
  // A class A device received the downlink after its previous frame, which has the next lower counter.
  const fCnt = deviceClass === 'A' && frame.fCnt > 0 ? frame.fCnt - 1 : undefined;
  return {
    ...outcome,
    time,
    clock: CLOCK,
    receivedAt: frame.receivedAt - HALF_TIMESTAMP_STEP,
    fCnt,
    devAddr: frame.devAddr,
    networkDecodes: frame.isDecoded,
  };
}

/**
 * Returns the evidence of a log event; undefined if it does not decide the outcome of a downlink. DOWNLINK_GATEWAY has
 * no queue item id: a device has only one item. An item whose txack was lost remains in the queue and expires there,
 * although the device received it: only `isProvablyUnsent` items were never received.
 */
export function toLogEvidence(
  { code, description, time }: LogEvent,
  receivedAt: number,
  isProvablyUnsent: boolean,
): Evidence | undefined {
  const details = {
    time,
    clock: CLOCK,
    receivedAt,
    code: code.toLowerCase(),
    message: toPrintable(description) || code,
  };
  switch (code) {
    case 'DOWNLINK_PAYLOAD_SIZE':
    case 'F_CNT_DOWN':
      return { kind: 'refused', ...details };
    case 'EXPIRED':
      return { kind: isProvablyUnsent ? 'unreachable' : 'network_retry', ...details };
    case 'DOWNLINK_GATEWAY':
      return { kind: 'network_retry', ...details };
    default:
      return undefined;
  }
}

/** Makes a text of unknown origin safe to store and display. */
function toPrintable(text: string): string {
  return truncateForDisplay(
    text
      .toWellFormed()
      .replace(/\p{Cc}+/gu, ' ')
      .trim(),
    MAX_MESSAGE_LENGTH,
  );
}
