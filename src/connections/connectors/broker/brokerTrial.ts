import { randomUUID } from 'node:crypto';
import type { ConnectionCheck } from '../../connector';
import { BrokerConnection } from './brokerConnection';
import { BrokerError, type BrokerFault } from './brokerFaults';
import type { BrokerSettings, MqttVersion } from './brokerSettings';

/** What is looked at, in order: each needs those before. */
const STAGES = ['address', 'tls', 'sign_in', 'protocol', 'subscribe'] as const;

type Stage = (typeof STAGES)[number];

const CONNECT_TIMEOUT = 8000;
const CLOSE = 1000;
const ADDRESS = new Set(['name_not_found', 'connection_refused', 'timed_out', 'unreachable']);
const PROTOCOL = new Set(['unsupported_protocol', 'closed', 'connection_lost', 'protocol_error', 'no_websocket']);
/** What brokers of 3.1.1 do when they are spoken to in MQTT 5. */
const MEANS_OLDER = new Set(['unsupported_protocol', 'closed', 'connection_lost', 'protocol_error']);

/** Tries a broker out with a client id and a session of its own, of which nothing is left: reaches it, signs in, subscribes. Ends within 20 s, sooner if the signal aborts. `connectTimeoutMs`: how long the broker has to answer. */
export async function tryBroker(settings: BrokerSettings, filters: readonly string[], signal: AbortSignal, connectTimeoutMs = CONNECT_TIMEOUT): Promise<ConnectionCheck[]> {
  const versions: readonly MqttVersion[] = settings.protocol ? [settings.protocol] : ['5', '3.1.1'];
  const trial = { ...settings, clientId: `plantroom-trial-${randomUUID()}`, cleanSession: true };
  let fault: BrokerFault | undefined;
  for (const version of versions) {
    const found = await attempt(trial, version, connectTimeoutMs, filters, signal);
    if (Array.isArray(found)) return checksOf(trial, version, undefined).map((check) => (check.name === 'subscribe' && found.length > 0 ? atMostOnce(found) : check));
    fault ??= found;
    if (!MEANS_OLDER.has(found.code)) return checksOf(trial, version, found);
  }
  return checksOf(trial, '5', fault);
}

/** Answers the filters that the broker grants only with QoS 0, or why it does not work. */
async function attempt(trial: BrokerSettings, version: MqttVersion, connectTimeoutMs: number, filters: readonly string[], signal: AbortSignal): Promise<BrokerFault | string[]> {
  const connection = new BrokerConnection({ settings: trial, version, connectTimeoutMs, message: async () => {} });
  const end = (): void => connection.destroy();
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  try {
    await connection.opened();
    const granted = await connection.subscribe(filters, undefined);
    await connection.close(CLOSE);
    return granted;
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    return error.fault;
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}

function checksOf(settings: BrokerSettings, version: MqttVersion, fault: BrokerFault | undefined): ConnectionCheck[] {
  const failed = fault ? stageOf(fault) : undefined;
  const last = failed ? STAGES.indexOf(failed) : STAGES.length;
  return STAGES.map((name, at) => {
    if (name === failed) return { name, outcome: 'failed', message: `${fault?.message ?? ''}${name === 'sign_in' ? triedAs(settings) : ''}` };
    if (at > last) return { name, outcome: 'skipped', message: 'what comes before it failed' };
    return passed(name, settings, version);
  });
}

function passed(name: Stage, settings: BrokerSettings, version: MqttVersion): ConnectionCheck {
  const { url, username } = settings;
  const isTls = url.startsWith('mqtts:') || url.startsWith('wss:');
  const messages: Readonly<Record<Stage, string>> = {
    address: 'the broker answers',
    tls: isTls ? "the broker's certificate is trusted" : 'the url is one without TLS',
    sign_in: `${username === undefined ? 'the broker lets this client in without a user' : 'the broker knows the user'}${triedAs(settings)}`,
    protocol: `MQTT ${version}`,
    subscribe: 'the broker allows the subscription',
  };
  return { name, outcome: name === 'tls' && !isTls ? 'skipped' : 'ok', message: messages[name] };
}

/** Brokers may have rules for client ids: the connection itself signs in with another one. */
function triedAs({ clientId }: BrokerSettings): string {
  return `; tried with the client id ${clientId}, not with that of the connection`;
}

function atMostOnce(filters: readonly string[]): ConnectionCheck {
  const topics = filters.map((filter) => JSON.stringify(filter)).join(', ');
  return { name: 'subscribe', outcome: 'warning', message: `subscribed_at_most_once: the broker grants ${topics} only with QoS 0, so that messages get lost while the server is away; allow QoS 1 there` };
}

function stageOf({ code }: BrokerFault): Stage {
  if (ADDRESS.has(code)) return 'address';
  if (code.includes('certificate') || code.includes('tls')) return 'tls';
  if (code.startsWith('subscription_')) return 'subscribe';
  return PROTOCOL.has(code) ? 'protocol' : 'sign_in';
}
