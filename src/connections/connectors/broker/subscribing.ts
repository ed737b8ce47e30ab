import type { MqttClient } from 'mqtt';
import { sleep } from '../../../kernel/sleep';
import { BrokerError, refusedSubscription } from './brokerFaults';

/** The filters to subscribe to, and the options. */
interface Subscription {
  readonly filters: readonly string[];
  readonly isMqtt5: boolean;
  /** MQTT 5 only. */
  readonly subscriptionId: number | undefined;
  /** Whether the broker sends retained messages now. MQTT 5 only: with 3.1.1 it always does. */
  readonly wantsRetained: boolean;
}

/**
 * Subscribes with QoS 1. Resolves with the filters that the broker grants only
 * with QoS 0. Rejects with a BrokerError if the broker rejects a filter. Stays pending if the connection is closed
 * before the SUBACK.
 */
export async function requestSubscription(
  client: MqttClient,
  { filters, isMqtt5, subscriptionId, wantsRetained }: Subscription,
): Promise<string[]> {
  const options = {
    qos: 1 as const,
    ...(isMqtt5 && { rh: wantsRetained ? 0 : 2 }), // retain handling: at each subscription, or never
    ...(isMqtt5 && subscriptionId !== undefined && { properties: { subscriptionIdentifier: subscriptionId } }),
  };
  return await new Promise((resolve, reject) => {
    client.subscribe([...filters], options, (error, _granted, packet) => {
      if (!packet) return; // the connection was closed, and the adapter reports why
      if (error) reject(new BrokerError(refusedSubscription(filters)));
      else resolve(filters.filter((_filter, index) => packet.granted[index] === 0)); // the granted QoS of each filter
    });
  });
}

/**
 * Resolves when no message has arrived for `limitMs` milliseconds, counted from the call at the earliest.
 * `getLastMessageAt`: returns the time of the last message, on the monotonic clock. Rejects if the signal aborts first.
 */
export async function waitForSilence(
  limitMs: number,
  getLastMessageAt: () => number,
  signal: AbortSignal,
): Promise<void> {
  const startedAt = performance.now();
  let remainingMs = limitMs;
  while (remainingMs > 0) {
    await sleep(remainingMs, signal);
    signal.throwIfAborted();
    remainingMs = limitMs - (performance.now() - Math.max(startedAt, getLastMessageAt()));
  }
}
