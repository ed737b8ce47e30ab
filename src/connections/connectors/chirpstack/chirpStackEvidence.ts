import { shortened } from '../../../kernel/shortened';
import type { Evidence } from '../../connector';
import type { AckEvent, DeviceClass, LogEvent, TxAckEvent } from './chirpStackEvent';
import { CLOCK } from './chirpStackUplinks';

/** The last frame of a device that came in, as far as evidence is concerned with it. */
export interface Frame {
  readonly deduplicationId: string;
  /** The stamp of its arrival. */
  readonly receivedAt: number;
  /** By the network server's clock, undefined: it did not say. */
  readonly time: number | undefined;
  readonly fCnt: number;
}

/** Half of what parts two stamps, so that nothing else can have this one. */
const BEFORE = 2 ** -11;
const LONGEST_MESSAGE = 500;

/** A gateway took the downlink. Class A: it went into the receive window that the device's last frame opened. */
export function evidenceOfTxAck(event: TxAckEvent, receivedAt: number, deviceClass: DeviceClass, lastFrame: Frame | undefined): Evidence {
  return { kind: 'transport_ok', time: event.time, clock: CLOCK, receivedAt, fCnt: deviceClass === 'A' ? lastFrame?.fCnt : undefined };
}

/**
 * The device acknowledged, or no acknowledgement was seen. `frame`: the one that brought it, if it is known: what stands in it is newer than
 * the downlink that it acknowledges, so the evidence is told of the moment before it.
 */
export function evidenceOfAck(event: AckEvent, receivedAt: number, deviceClass: DeviceClass, frame: Frame | undefined): Evidence {
  const facts: Evidence = event.acknowledged ? { kind: 'ack' } : { kind: 'no_answer', code: 'no_ack', message: 'the network server saw no acknowledgement of the device' };
  if (!frame) return { ...facts, time: event.time, clock: CLOCK, receivedAt };
  const time = frame.time === undefined ? undefined : Math.min(event.time ?? frame.time, frame.time - 1);
  const fCnt = deviceClass === 'A' && frame.fCnt > 0 ? frame.fCnt - 1 : undefined;
  return { ...facts, time, clock: CLOCK, receivedAt: frame.receivedAt - BEFORE, fCnt };
}

/**
 * What a log event tells of a downlink; undefined: nothing that settles one. DOWNLINK_GATEWAY names no queue item: the device has only one.
 * An item whose txack got lost stays in the queue and expires there, though the device heard it: only what is `isProvablyUnsent` reached nobody.
 */
export function evidenceOfLog({ code, description, time }: LogEvent, receivedAt: number, isProvablyUnsent: boolean): Evidence | undefined {
  const facts = { time, clock: CLOCK, receivedAt, code: code.toLowerCase(), message: printable(description) || code };
  switch (code) {
    case 'DOWNLINK_PAYLOAD_SIZE':
    case 'F_CNT_DOWN':
      return { kind: 'refused', ...facts };
    case 'EXPIRED':
      return { kind: isProvablyUnsent ? 'unreachable' : 'network_retry', ...facts };
    case 'DOWNLINK_GATEWAY':
      return { kind: 'network_retry', ...facts };
    default:
      return undefined;
  }
}

/** Whoever wrote it, it can be stored and shown. */
function printable(text: string): string {
  return shortened(text.toWellFormed().replace(/\p{Cc}+/gu, ' ').trim(), LONGEST_MESSAGE);
}
