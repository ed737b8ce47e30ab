import { setTimeout as sleep } from 'node:timers/promises';
import { connect, ErrorWithReasonCode, type IClientPublishOptions, type IPublishPacket, type MqttClient } from 'mqtt';
import { DomainError } from '../../../kernel/errors';
import { newId } from '../../../kernel/ids';
import type { OnPlayed } from '../playing';
import type { BrokerTarget } from './brokerFlags';

/** A message from the broker. */
export interface PlayedMessage {
  readonly topic: string;
  readonly payload: Buffer;
  /** MQTT 5: where an answer is wanted. */
  readonly responseTopic: string | undefined;
  /** MQTT 5: what the answer has to carry. */
  readonly correlationData: Buffer | undefined;
}

/** What runs over the link. */
export interface LinkUse {
  /** Topics and filters to hear, at QoS 1. */
  readonly filters: readonly string[];
  readonly message: (message: PlayedMessage) => void;
  /** The link is there and hears. */
  readonly up: () => void;
}

/** How long each try may take, and the pause after so many failed ones; milliseconds. */
export interface LinkTimes {
  readonly connectMs: number;
  readonly backoffMs: (failures: number) => number;
}

/** 10 s for each try, pauses from 1 s to 30 s. */
export const USUAL_TIMES: LinkTimes = { connectMs: 10_000, backoffMs: (failures) => Math.min(1000 * 2 ** Math.min(failures, 5), 30_000) };

// Reason codes of MQTT 5 and return codes of 3.1.1.
const OTHER_VERSION = new Set([1, 0x84]);
const WILL_NEVER_DO = new Set([2, 4, 5, 0x85, 0x86, 0x87, 0x8a]);

/**
 * The link of a simulation to its broker: MQTT 5, or 3.1.1 where the broker speaks nothing newer. A clean session: what was published
 * while it was away is not heard. What cannot be published now is dropped, as by a device that keeps nothing.
 */
export class PlayedLink {
  private client: MqttClient | undefined;
  private version: 4 | 5 = 5;
  private readonly clientId = `plantroom-simulate-${newId()}`;

  constructor(
    private readonly target: BrokerTarget,
    private readonly use: LinkUse,
    private readonly onEvent: OnPlayed,
    private readonly times: LinkTimes = USUAL_TIMES,
  ) {}

  /** Keeps the link up until `signal` aborts. Rejects with `simulator_refused` when the broker will never let it in. */
  async run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; failures += 1) {
      const { wasUp, error } = await this.once(signal);
      if (signal.aborted) return;
      const code = codeOf(error);
      if (WILL_NEVER_DO.has(code)) throw new DomainError('conflict', 'simulator_refused', `the broker refused the simulation: ${error?.message}; check --user, --password and what the broker allows`);
      if (wasUp) failures = 0;
      await this.pause(this.isTooNew(wasUp, error) ? 0 : this.times.backoffMs(failures), error, signal);
    }
  }

  /** False: the link is down, nothing was sent. */
  publish(topic: string, payload: Buffer | string, properties: IClientPublishOptions['properties'] = {}): boolean {
    if (!this.client?.connected) return false;
    // Its outcome is the broker's; when the link breaks first, the simulation says so itself.
    this.client.publish(topic, payload, { qos: 1, ...(this.version === 5 && { properties }) }, () => {});
    return true;
  }

  /** Whether the next try is with an older version. Some brokers of 3.1.1 say that they know no other, some just close. */
  private isTooNew(wasUp: boolean, error: Error | undefined): boolean {
    if (this.version === 4 || wasUp || (error && !OTHER_VERSION.has(codeOf(error)))) return false;
    this.version = 4;
    return true;
  }

  private async pause(ms: number, error: Error | undefined, signal: AbortSignal): Promise<void> {
    this.onEvent({ event: 'broker.disconnected', time: Date.now(), fields: { ...(error && { message: error.message || (error as NodeJS.ErrnoException).code }), retry_in_ms: ms } });
    await sleep(ms, undefined, { signal }).catch(() => {}); // aborted: the loop ends
  }

  /** One connection from its beginning to its end. */
  private async once(signal: AbortSignal): Promise<{ wasUp: boolean; error: Error | undefined }> {
    const { url, username, password, ca, certificate, privateKey } = this.target;
    const secrets = { ...(username !== undefined && { username }), ...(password !== undefined && { password }), ...(ca !== undefined && { ca }), ...(certificate !== undefined && { cert: certificate, key: privateKey ?? '' }) };
    const client = connect(url, { ...secrets, clientId: this.clientId, protocolVersion: this.version, clean: true, reconnectPeriod: 0, connectTimeout: this.times.connectMs, resubscribe: false, queueQoSZero: false });
    let wasUp = false;
    let error: Error | undefined;
    client.on('error', (failure: Error) => (error = failure));
    client.on('message', (topic, payload, packet) => this.use.message(messageOf(topic, payload, packet)));
    client.on('connect', () => {
      client.subscribe([...this.use.filters], { qos: 1 }, (failure) => {
        if (failure) {
          error = failure;
          client.end(true);
          return;
        }
        wasUp = true;
        this.client = client;
        this.onEvent({ event: 'broker.connected', time: Date.now(), fields: { broker: withoutPassword(url), mqtt: this.version === 5 ? '5' : '3.1.1' } });
        this.use.up();
      });
    });
    const close = (): void => void client.end();
    signal.addEventListener('abort', close, { once: true });
    await new Promise<void>((resolve) => client.once('close', resolve));
    signal.removeEventListener('abort', close);
    this.client = undefined;
    client.end(true);
    return { wasUp, error };
  }
}

/** -1: it has none. */
function codeOf(error: Error | undefined): number {
  return error instanceof ErrorWithReasonCode ? error.code : -1;
}

function messageOf(topic: string, payload: Buffer, { properties }: IPublishPacket): PlayedMessage {
  return { topic, payload, responseTopic: properties?.responseTopic, correlationData: properties?.correlationData };
}

function withoutPassword(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
