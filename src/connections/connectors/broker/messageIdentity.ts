import { createHash } from 'node:crypto';
import type { IPublishPacket } from 'mqtt-packet';
import type { UplinkIdentity } from '../../connector';
import type { BrokerMessage } from './brokerTraffic';

/** 22 characters of base64url are 132 bits, which is enough to distinguish messages. */
const DIGEST_LENGTH = 22;

/**
 * Returns the identity of a message. A QoS 1 message is identified by its packet id and a digest, because a packet id
 * is reused; a QoS 0 message has none. `messageId`: the packet id; undefined with QoS 0. `acknowledgedBefore`: the time
 * before which the broker certainly received our acknowledgements, or 0 if unknown.
 */
export function getIdentity(
  packet: IPublishPacket,
  messageId: number | undefined,
  acknowledgedBefore: number,
): UplinkIdentity {
  if (messageId === undefined) return { kind: 'none' };
  return {
    kind: 'delivery',
    slot: String(messageId),
    digest: computeDigest(packet.topic, toPayload(packet)),
    isRepetition: packet.dup,
    ...(acknowledgedBefore > 0 && { acknowledgedBefore }),
  };
}

/** Converts a packet for the handlers. */
export function toBrokerMessage(
  packet: IPublishPacket,
  about: Pick<BrokerMessage, 'identity' | 'isBuffered' | 'receivedAt' | 'signal'>,
): BrokerMessage {
  return {
    ...about,
    topic: packet.topic,
    payload: toPayload(packet),
    qos: about.identity.kind === 'none' ? packet.qos : 1, // the adapter presents QoS 1 messages as QoS 0
    retained: packet.retain,
    correlationData: packet.properties?.correlationData,
  };
}

/** Returns the payload of a packet as bytes. */
function toPayload({ payload }: IPublishPacket): Buffer {
  return Buffer.isBuffer(payload) ? payload : Buffer.from(payload);
}

function computeDigest(topic: string, payload: Buffer): string {
  return createHash('sha256').update(topic).update('\0').update(payload).digest('base64url').slice(0, DIGEST_LENGTH);
}
