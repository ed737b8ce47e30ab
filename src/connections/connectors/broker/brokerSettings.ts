import { UniqueMessageIdProvider, type IClientOptions } from 'mqtt';

/** The protocol versions that a link can speak. */
export type MqttVersion = '5' | '3.1.1';

/** How to reach a broker, and who we are there. */
export interface BrokerSettings {
  /** mqtt:, mqtts:, ws: or wss:, a host, and perhaps a port and a path; no user information. */
  readonly url: string;
  /** Absent: 5, and 3.1.1 where the broker does not speak it. */
  readonly protocol?: MqttVersion | undefined;
  /** The same each time, for the session at the broker goes by it. */
  readonly clientId: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** The certification authorities that are trusted, as PEM; absent: the usual ones. */
  readonly ca?: string | undefined;
  /** Our certificate and its key, as PEM. */
  readonly certificate?: string | undefined;
  readonly privateKey?: string | undefined;
  /** The name that the broker's certificate must have; absent: the host of the url. */
  readonly serverName?: string | undefined;
  /** A link over which nothing came for one and a half times as long is lost. */
  readonly keepaliveSeconds: number;
  /** How long the broker keeps what came while we were away; 3.1.1 cannot say it. */
  readonly sessionExpirySeconds: number;
  /** True: the broker keeps nothing, and forgets what it had. Absent: false. */
  readonly cleanSession?: boolean | undefined;
}

/** At most so many messages of QoS 1 are under way at once with MQTT 5. */
const RECEIVE_MAXIMUM = 200;
/** Larger messages are refused with MQTT 5, in bytes. */
export const LARGEST_MESSAGE = 1024 * 1024;

/** The library's options for one network connection, after which its client is thrown away. Throws for a url that is none. */
export function clientOptionsOf(settings: BrokerSettings, version: MqttVersion, connectTimeoutMs: number): IClientOptions {
  const { clientId, keepaliveSeconds, sessionExpirySeconds, cleanSession = false } = settings;
  const isMqtt5 = version === '5';
  return {
    ...addressOf(settings),
    ...tlsOf(settings),
    ...(settings.username !== undefined && { username: settings.username }),
    ...(settings.password !== undefined && { password: settings.password }),
    clientId,
    clean: cleanSession,
    keepalive: keepaliveSeconds,
    protocolId: 'MQTT',
    protocolVersion: isMqtt5 ? 5 : 4,
    ...(isMqtt5 && { properties: { sessionExpiryInterval: cleanSession ? 0 : sessionExpirySeconds, receiveMaximum: RECEIVE_MAXIMUM, maximumPacketSize: LARGEST_MESSAGE } }),
    connectTimeout: connectTimeoutMs,
    // Nothing is ever sent again by the library: each network connection has a client of its own.
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    // Its usual one gives identifiers out again that are still in use.
    messageIdProvider: new UniqueMessageIdProvider(),
    timerVariant: 'native',
  };
}

function addressOf({ url, serverName }: BrokerSettings): IClientOptions {
  const { protocol, hostname, port, pathname, search } = new URL(url);
  const scheme = protocol.slice(0, -1) as 'mqtt' | 'mqtts' | 'ws' | 'wss';
  const isWeb = scheme === 'ws' || scheme === 'wss';
  const host = isWeb ? hostname : hostname.replace(/^\[(.*)\]$/, '$1');
  return {
    protocol: scheme,
    host,
    hostname: host,
    port: port === '' ? defaultPort(scheme) : Number(port),
    ...(isWeb && { path: `${pathname}${search}` }),
    ...(serverName !== undefined && { servername: serverName }),
  };
}

function defaultPort(scheme: 'mqtt' | 'mqtts' | 'ws' | 'wss'): number {
  return { mqtt: 1883, mqtts: 8883, ws: 80, wss: 443 }[scheme];
}

function tlsOf({ url, ca, certificate, privateKey, serverName }: BrokerSettings): IClientOptions {
  if (!url.startsWith('mqtts:') && !url.startsWith('wss:')) return {};
  const tls = {
    rejectUnauthorized: true,
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { cert: certificate }),
    ...(privateKey !== undefined && { key: privateKey }),
  };
  return { ...tls, wsOptions: { ...tls, ...(serverName !== undefined && { servername: serverName }) } };
}
