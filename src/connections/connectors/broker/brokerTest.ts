import { randomUUID } from 'node:crypto';
import { sleep } from '../../../kernel/sleep';
import type { ConnectionCheck } from '../../connector';
import { MqttClientAdapter, type Incoming } from './mqttClientAdapter';
import { BrokerError, CLOSED, closedBeforeSubscription, OLDER_VERSION_FAULTS, type BrokerFault } from './brokerFaults';
import type { BrokerSettings, MqttVersion } from './brokerSettings';

/** The checks in order. Each one requires the earlier ones. */
const STAGES = ['address', 'tls', 'sign_in', 'protocol', 'subscribe'] as const;

type Stage = (typeof STAGES)[number];

const CONNECT_TIMEOUT_MS = 8000;
const CLOSE_TIMEOUT_MS = 1000;
const ADDRESS_FAULTS = new Set(['name_not_found', 'connection_refused', 'timed_out', 'unreachable']);
const PROTOCOL_FAULTS = new Set([
  'unsupported_protocol',
  'closed',
  'connection_lost',
  'protocol_error',
  'no_websocket',
]);

/** The options of a broker test, in addition to the broker settings. */
interface BrokerTestOptions {
  readonly filters: readonly string[];
  /** Aborts the test. */
  readonly signal: AbortSignal;
  /** The response timeout of the broker, milliseconds; default 8 s. */
  readonly connectTimeoutMs?: number;
  readonly listener?: TestListener;
}

/** Receives the messages of the broker after the subscriptions are active. */
export interface TestListener {
  /** The maximum time to listen, milliseconds. */
  readonly listenMs: number;
  /** Examines a message. Returns true to end the test, if it needs no more messages. */
  examine(incoming: Incoming): boolean;
}

/**
 * Tests a broker with a temporary client id and session, and leaves nothing behind: connects, signs in, subscribes, and
 * listens if there is a listener. Ends within 20 s, sooner if the signal aborts.
 */
export async function testBroker(settings: BrokerSettings, options: BrokerTestOptions): Promise<ConnectionCheck[]> {
  const versions: readonly MqttVersion[] = settings.protocol ? [settings.protocol] : ['5', '3.1.1'];
  const testSettings = { ...settings, clientId: `plantroom-trial-${randomUUID()}`, cleanSession: true };
  let fault: BrokerFault | undefined;
  for (const version of versions) {
    const result = await testWithVersion(testSettings, version, options);
    if (result.kind === 'passed') return listPassedChecks(testSettings, version, result);
    fault ??= result.fault; // that of the newest version
    if (!OLDER_VERSION_FAULTS.has(result.fault.code)) return listChecks(testSettings, version, result.fault);
  }
  return listChecks(testSettings, '5', fault); // no version works
}

/** What an accepted attempt shows. `atMostOnceFilters`: the filters that the broker grants only with QoS 0. */
interface PassedAttempt {
  readonly kind: 'passed';
  readonly atMostOnceFilters: readonly string[];
  readonly supportsQos1: boolean;
}

/** The result of an attempt. */
type AttemptResult = PassedAttempt | { readonly kind: 'failed'; readonly fault: BrokerFault };

/** Tests with one version of MQTT. Resolves with the fault if the test failed. */
async function testWithVersion(
  settings: BrokerSettings,
  version: MqttVersion,
  options: BrokerTestOptions,
): Promise<AttemptResult> {
  const { filters, signal, connectTimeoutMs = CONNECT_TIMEOUT_MS, listener } = options;
  const doneListening = new AbortController();
  const onMessage = async (incoming: Incoming): Promise<void> => {
    if (!doneListening.signal.aborted && listener?.examine(incoming) === true) doneListening.abort();
  };
  const adapter = new MqttClientAdapter({ settings, version, connectTimeoutMs, onMessage });
  const closeAdapter = (): void => adapter.destroy();
  signal.addEventListener('abort', closeAdapter, { once: true });
  if (signal.aborted) closeAdapter();
  try {
    await adapter.waitUntilAccepted();
    const atMostOnceFilters = await adapter.subscribe(filters, undefined);
    if (listener) await sleep(listener.listenMs, AbortSignal.any([doneListening.signal, adapter.signal]));
    await adapter.close(CLOSE_TIMEOUT_MS);
    return { kind: 'passed', atMostOnceFilters, supportsQos1: adapter.capabilities.supportsQos1 };
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    const isClosedAfterConnack = error.fault === CLOSED && adapter.isAnswered;
    const fault = isClosedAfterConnack
      ? { ...closedBeforeSubscription(settings.clientId, filters), code: 'subscription_cut_off' }
      : error.fault;
    return { kind: 'failed', fault };
  } finally {
    signal.removeEventListener('abort', closeAdapter);
    closeAdapter();
  }
}

/**
 * Lists the checks of a test that passed, with a warning about filters that the broker grants only with QoS 0, and
 * whether commands can be published.
 */
function listPassedChecks(
  settings: BrokerSettings,
  version: MqttVersion,
  { atMostOnceFilters, supportsQos1 }: PassedAttempt,
): ConnectionCheck[] {
  const checks = [...listChecks(settings, version, undefined), checkCommandQos(settings, version, supportsQos1)];
  if (atMostOnceFilters.length === 0) return checks;
  return checks.map((check) => (check.name === 'subscribe' ? warnAtMostOnce(atMostOnceFilters) : check));
}

/** Reports whether the broker accepts commands with the configured QoS; MQTT 3.1.1 brokers do not say it. */
function checkCommandQos({ commandQos }: BrokerSettings, version: MqttVersion, supportsQos1: boolean): ConnectionCheck {
  const name = 'command_qos';
  if (commandQos === 0)
    return {
      name,
      outcome: 'warning',
      message: supportsQos1
        ? 'commands are published with QoS 0, so the broker does not acknowledge them; set commandQos to 1 if the broker supports it'
        : 'commands are published with QoS 0, because the broker supports no other: it does not acknowledge them',
    };
  if (supportsQos1)
    return version === '5'
      ? { name, outcome: 'ok', message: 'the broker accepts commands with QoS 1' }
      : { name, outcome: 'skipped', message: 'skipped: an MQTT 3.1.1 broker does not say whether it accepts QoS 1' };
  return {
    name,
    outcome: 'failed',
    message:
      'qos_not_supported: the broker accepts only QoS 0, so commands are rejected; allow QoS 1 at the broker, or set commandQos to 0',
  };
}

/**
 * Lists the result of each stage: the stage of the fault has failed, earlier ones have passed, and later ones are
 * skipped. Without a fault, all have passed.
 */
function listChecks(settings: BrokerSettings, version: MqttVersion, fault: BrokerFault | undefined): ConnectionCheck[] {
  const failedStage = fault ? getStage(fault) : undefined;
  const failedIndex = failedStage ? STAGES.indexOf(failedStage) : STAGES.length;
  return STAGES.map((name, index) => {
    if (name === failedStage)
      return {
        name,
        outcome: 'failed',
        message: `${fault?.message ?? ''}${name === 'sign_in' ? describeClientId(settings) : ''}`,
      };
    if (index > failedIndex) return { name, outcome: 'skipped', message: 'skipped: an earlier check failed' };
    return describePassedCheck(name, settings, version);
  });
}

/** Returns the check of a stage that passed; without TLS, that stage is skipped. */
function describePassedCheck(name: Stage, settings: BrokerSettings, version: MqttVersion): ConnectionCheck {
  const { url, username } = settings;
  const isTls = url.startsWith('mqtts:') || url.startsWith('wss:');
  const messages: Readonly<Record<Stage, string>> = {
    address: 'the broker responds',
    tls: isTls ? "the broker's certificate is trusted" : 'skipped: the broker URL does not use TLS',
    sign_in: `${username === undefined ? 'the broker accepts anonymous clients' : 'the broker accepts the user'}${describeClientId(settings)}`,
    protocol: `MQTT ${version}`,
    subscribe: 'the broker allows the subscription',
  };
  return { name, outcome: name === 'tls' && !isTls ? 'skipped' : 'ok', message: messages[name] };
}

/** Names the client id that was used: brokers may restrict client ids, and the connection uses another one. */
function describeClientId({ clientId }: BrokerSettings): string {
  return `; tested with the client id ${clientId} instead of the client id of the connection`;
}

/** Returns the warning about filters that the broker grants only with QoS 0. */
function warnAtMostOnce(filters: readonly string[]): ConnectionCheck {
  const topics = filters.map((filter) => JSON.stringify(filter)).join(', ');
  return {
    name: 'subscribe',
    outcome: 'warning',
    message: `subscribed_at_most_once: the broker grants ${topics} only with QoS 0, so messages are lost while the server is disconnected; allow QoS 1 at the broker`,
  };
}

/** Returns the stage in which a fault occurs; faults of no other stage are those of the sign-in. */
function getStage({ code }: BrokerFault): Stage {
  if (ADDRESS_FAULTS.has(code)) return 'address';
  if (code.includes('certificate') || code.includes('tls')) return 'tls';
  if (code.startsWith('subscription_')) return 'subscribe';
  return PROTOCOL_FAULTS.has(code) ? 'protocol' : 'sign_in';
}
