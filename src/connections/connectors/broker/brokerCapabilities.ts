import { generate, type IConnackPacket, type IPublishPacket, type Packet } from 'mqtt-packet';
import { subscriptionTooLarge, wildcardNotSupported, type BrokerFault } from './brokerFaults';
import type { BrokerSettings, MqttVersion } from './brokerSettings';
import { createTooLargeOutcome, QOS_NOT_SUPPORTED, type PublishOutcome } from './publishOutcome';

/** Less than the number of packet identifiers, because subscriptions need some too. */
const MAX_RECEIVE_MAXIMUM = 65_000;
const WILDCARD = /[+#]/;

/** The properties of a CONNACK, with one that the types of the library lack. */
type ConnackProperties = NonNullable<IConnackPacket['properties']> & {
  readonly subscriptionIdentifiersAvailable?: boolean;
};

/**
 * What the broker supports and limits on one network connection, from its CONNACK. Only MQTT 5 brokers say it; with
 * MQTT 3.1.1 everything counts as supported. Not needed here: this server publishes no retained messages, uses no
 * shared subscriptions and no topic aliases, and always sets its client id.
 */
export class BrokerCapabilities {
  private readonly properties: ConnackProperties;

  /** `connack`: undefined before the broker has responded. */
  constructor(
    private readonly version: MqttVersion,
    connack: IConnackPacket | undefined,
  ) {
    this.properties = (version === '5' ? connack?.properties : undefined) ?? {};
  }

  /** The maximum number of our unacknowledged messages that the broker accepts. */
  get receiveMaximum(): number {
    return Math.min(this.properties.receiveMaximum ?? MAX_RECEIVE_MAXIMUM, MAX_RECEIVE_MAXIMUM);
  }

  /** Whether messages contain the identifier of the subscription that matched. */
  get hasSubscriptionIds(): boolean {
    return this.version === '5' && this.properties.subscriptionIdentifiersAvailable !== false;
  }

  /** Whether the broker accepts messages with QoS 1. It disconnects a client that publishes with a higher QoS. */
  get supportsQos1(): boolean {
    return this.properties.maximumQoS !== 0;
  }

  /**
   * Returns what the broker limits, as warning codes (SubscribedSession). `atMostOnceFilters`: the filters that it
   * grants only with QoS 0.
   */
  listWarnings({ commandQos, sessionExpirySeconds }: BrokerSettings, atMostOnceFilters: readonly string[]): string[] {
    const { sessionExpiryInterval: grantedSeconds = sessionExpirySeconds } = this.properties;
    return [
      ...(atMostOnceFilters.length > 0 ? ['subscribed_at_most_once'] : []),
      ...(grantedSeconds < sessionExpirySeconds ? ['session_expiry_shortened'] : []),
      ...(commandQos !== 0 && !this.supportsQos1 ? ['qos_not_supported'] : []),
    ];
  }

  /**
   * Returns why the broker will reject the subscription to these filters; undefined if no limit is exceeded. A broker
   * disconnects a client that exceeds them.
   */
  findSubscriptionFault(filters: readonly string[], subscriptionId: number | undefined): BrokerFault | undefined {
    const hasWildcard = filters.some((filter) => WILDCARD.test(filter));
    if (hasWildcard && this.properties.wildcardSubscriptionAvailable === false) return wildcardNotSupported(filters);
    const excess = this.findSizeExcess({
      cmd: 'subscribe',
      messageId: 1, // any value: the packet is only measured
      subscriptions: filters.map((topic) => ({ topic, qos: 1 })),
      ...(subscriptionId !== undefined && { properties: { subscriptionIdentifier: subscriptionId } }),
    });
    return excess && subscriptionTooLarge(excess.size, excess.max);
  }

  /** Returns the outcome of a message that the broker would disconnect for; undefined if it may be sent. */
  findRejection(packet: IPublishPacket): PublishOutcome | undefined {
    if (packet.qos > 0 && !this.supportsQos1) return QOS_NOT_SUPPORTED;
    const excess = this.findSizeExcess({ ...packet, messageId: 1 }); // any identifier: the packet is only measured
    return excess && createTooLargeOutcome(excess.size, excess.max);
  }

  /** Returns the size of a packet and the broker's limit, in bytes, if the packet is larger; otherwise undefined. */
  private findSizeExcess(packet: Packet): { readonly size: number; readonly max: number } | undefined {
    const max = this.properties.maximumPacketSize;
    if (max === undefined) return undefined;
    const size = generate(packet, { protocolVersion: 5 }).length; // only MQTT 5 brokers announce a limit
    return size > max ? { size, max } : undefined;
  }
}

/**
 * Replaces the keepalive interval that the broker requires by ours if ours is shorter: then the broker gets pings more
 * often than it needs, and a lost connection is detected as soon as configured. Call it before the library reads the
 * packet. Returns the interval in seconds.
 */
export function shortenServerKeepalive(connack: IConnackPacket, keepaliveSeconds: number): number {
  const { properties } = connack;
  if (properties?.serverKeepAlive === undefined || properties.serverKeepAlive === 0) return keepaliveSeconds; // 0: none
  properties.serverKeepAlive = Math.min(properties.serverKeepAlive, keepaliveSeconds);
  return properties.serverKeepAlive;
}
