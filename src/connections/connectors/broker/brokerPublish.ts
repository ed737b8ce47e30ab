import type { IPublishPacket } from 'mqtt-packet';

/** A message to publish: a command, or a barrier message. */
export interface BrokerPublish {
  readonly topic: string;
  readonly payload: Buffer;
  /** Unix milliseconds; undefined for messages that are not commands. */
  readonly deadline?: number | undefined;
  /** In whole seconds, MQTT 5 only. */
  readonly expirySeconds?: number | undefined;
  readonly responseTopic?: string | undefined;
  readonly correlationData?: Buffer | undefined;
}

/** Returns the MQTT 5 properties of a message. */
export function getProperties({
  expirySeconds,
  responseTopic,
  correlationData,
}: BrokerPublish): NonNullable<IPublishPacket['properties']> {
  return {
    ...(expirySeconds !== undefined && { messageExpiryInterval: expirySeconds }),
    ...(responseTopic !== undefined && { responseTopic }),
    ...(correlationData !== undefined && { correlationData }),
  };
}
