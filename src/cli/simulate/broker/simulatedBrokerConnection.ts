import { setTimeout as sleep } from 'node:timers/promises';
import { connect, ErrorWithReasonCode, type IClientPublishOptions, type MqttClient } from 'mqtt';
import { DomainError } from '../../../kernel/errors';
import { newId } from '../../../kernel/ids';
import type { OnSimulatedEvent } from '../simulation';
import type { BrokerTarget } from './brokerFlags';

/** A message from the broker. */
export interface SimulatedMessage {
  readonly topic: string;
  readonly payload: Buffer;
  /** MQTT 5: the response topic. */
  readonly responseTopic: string | undefined;
  /** MQTT 5: the correlation data of the response. */
  readonly correlationData: Buffer | undefined;
}

/** The subscriptions and callbacks of a link. */
interface LinkHandlers {
  /** Topics and filters to subscribe to, with QoS 1. */
  readonly filters: readonly string[];
  readonly onMessage: (message: SimulatedMessage) => void;
  /** Called when the link is connected and subscribed. */
  readonly onConnected: () => void;
}

/**
 * The connect timeout, and the delay after a failure; milliseconds. `earlierFailures`: the number of consecutive
 * failures before it (0 after the first).
 */
export interface LinkTimes {
  readonly connectMs: number;
  readonly backoffMs: (earlierFailures: number) => number;
}

/** A connect timeout of 10 s, delays from 1 s to 30 s. */
const DEFAULT_LINK_TIMES: LinkTimes = {
  connectMs: 10_000,
  backoffMs: (earlierFailures) => Math.min(1000 * 2 ** Math.min(earlierFailures, 5), 30_000),
};

// Return codes of MQTT 3.1.1 (1 to 5) and reason codes of MQTT 5 (from 0x80).
const UNSUPPORTED_VERSION = new Set([1, 0x84]);
/** Client id not accepted, wrong user name or password, not authorized, banned. */
const PERMANENT_REJECTIONS = new Set([2, 4, 5, 0x85, 0x86, 0x87, 0x8a]);

/**
 * The broker connection of a simulation: MQTT 5, or 3.1.1 if the broker does not support 5. It uses clean sessions:
 * messages that are published while it is disconnected are lost. Messages that cannot be published immediately are
 * dropped, like on a device without storage.
 */
export class SimulatedBrokerConnection {
  private client: MqttClient | undefined;
  /** The protocol level: 4 is MQTT 3.1.1. */
  private version: 4 | 5 = 5;
  private readonly clientId = `plantroom-simulate-${newId()}`;

  constructor(
    private readonly target: BrokerTarget,
    private readonly handlers: LinkHandlers,
    private readonly onEvent: OnSimulatedEvent,
    private readonly times: LinkTimes = DEFAULT_LINK_TIMES,
  ) {}

  /**
   * Keeps the connection open until `signal` aborts. Rejects with `connection_refused` if the broker rejects the
   * connection permanently.
   */
  async run(signal: AbortSignal): Promise<void> {
    for (let earlierFailures = 0; !signal.aborted; earlierFailures += 1) {
      const { wasConnected, error } = await this.runConnection(signal);
      if (signal.aborted) return;
      const code = getCode(error);
      if (PERMANENT_REJECTIONS.has(code))
        throw new DomainError(
          'conflict',
          'connection_refused',
          `the broker rejected the simulation: ${error?.message}; check --user, --password and the permissions at the broker`,
        );
      if (wasConnected) earlierFailures = 0; // losing a working connection counts as the first failure
      const isVersionChanged = this.fallBackToOlderVersion(wasConnected, error);
      await this.pause(isVersionChanged ? 0 : this.times.backoffMs(earlierFailures), error, signal);
    }
  }

  /** Publishes with QoS 1. Returns false if the link is down, so nothing was sent. */
  publish(topic: string, payload: Buffer | string, properties: IClientPublishOptions['properties'] = {}): boolean {
    if (!this.client?.connected) return false;
    // The outcome is not needed: if the link is lost first, the simulation reports that.
    this.client.publish(topic, payload, { qos: 1, ...(this.version === 5 && { properties }) }, () => {});
    return true;
  }

  /**
   * Uses MQTT 3.1.1 from the next attempt on if the broker seems not to support MQTT 5; returns whether it does so.
   * Some MQTT 3.1.1 brokers report the unsupported version, others just close the connection.
   */
  private fallBackToOlderVersion(wasConnected: boolean, error: Error | undefined): boolean {
    if (this.version === 4 || wasConnected || (error && !UNSUPPORTED_VERSION.has(getCode(error)))) return false;
    this.version = 4;
    return true;
  }

  /** Reports the lost connection, and waits before the next attempt. */
  private async pause(ms: number, error: Error | undefined, signal: AbortSignal): Promise<void> {
    this.onEvent({
      event: 'broker.disconnected',
      time: Date.now(),
      fields: { ...(error && { message: error.message || (error as NodeJS.ErrnoException).code }), retry_in_ms: ms },
    });
    await sleep(ms, undefined, { signal }).catch(() => {}); // aborted: the loop ends
  }

  /**
   * Opens a connection, subscribes, and resolves when it is closed: `wasConnected` if it was subscribed, `error` if it
   * failed. The MQTT library does not reconnect, because `run` does.
   */
  private async runConnection(signal: AbortSignal): Promise<{ wasConnected: boolean; error: Error | undefined }> {
    const { url, username, password, ca, certificate, privateKey } = this.target;
    const credentials = {
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      ...(ca !== undefined && { ca }),
      ...(certificate !== undefined && { cert: certificate, key: privateKey ?? '' }),
    };
    const client = connect(url, {
      ...credentials,
      clientId: this.clientId,
      protocolVersion: this.version,
      clean: true,
      reconnectPeriod: 0,
      connectTimeout: this.times.connectMs,
      resubscribe: false,
      queueQoSZero: false,
    });
    let wasConnected = false;
    let error: Error | undefined;
    client.on('error', (failure: Error) => (error = failure));
    client.on('message', (topic, payload, packet) =>
      this.handlers.onMessage({
        topic,
        payload,
        responseTopic: packet.properties?.responseTopic,
        correlationData: packet.properties?.correlationData,
      }),
    );
    client.on('connect', () => {
      client.subscribe([...this.handlers.filters], { qos: 1 }, (failure) => {
        if (failure) {
          error = failure;
          client.end(true);
          return;
        }
        wasConnected = true;
        this.client = client;
        this.onEvent({
          event: 'broker.connected',
          time: Date.now(),
          fields: { broker: omitPassword(url), mqtt: this.version === 5 ? '5' : '3.1.1' },
        });
        this.handlers.onConnected();
      });
    });
    const close = (): void => void client.end();
    signal.addEventListener('abort', close, { once: true });
    await new Promise<void>((resolve) => client.once('close', resolve));
    signal.removeEventListener('abort', close);
    this.client = undefined;
    client.end(true);
    return { wasConnected, error };
  }
}

/** Returns the MQTT reason code of an error; -1, which is not a reason code, if it has none. */
function getCode(error: Error | undefined): number {
  return error instanceof ErrorWithReasonCode ? error.code : -1;
}

function omitPassword(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
