import { UniqueMessageIdProvider, type IClientOptions } from 'mqtt';

/** The supported protocol versions. */
export type MqttVersion = '5' | '3.1.1';

/** How to reach a broker, and the identity of this server there. */
export interface BrokerSettings {
  /** An mqtt:, mqtts:, ws: or wss: URL with a host, optionally a port and a path; without user information. */
  readonly url: string;
  /** Undefined: 5, or 3.1.1 if the broker does not support 5. */
  readonly protocol?: MqttVersion | undefined;
  /** It must never change, because it identifies the session at the broker. */
  readonly clientId: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** The trusted certification authorities, as PEM; undefined: the default ones. */
  readonly ca?: string | undefined;
  /** The client certificate and its key, as PEM. */
  readonly certificate?: string | undefined;
  readonly privateKey?: string | undefined;
  /** The name that the broker's certificate must contain; undefined: the host of the url. */
  readonly serverName?: string | undefined;
  /** A connection without any incoming packet for 1.5 times this interval is considered lost. */
  readonly keepaliveSeconds: number;
  /** How long the broker stores messages while this server is disconnected; MQTT 3.1.1 cannot express it. */
  readonly sessionExpirySeconds: number;
  /**
   * The QoS with which commands are published. 0: nobody acknowledges them, so only a response or a sensor shows what
   * became of a command. Default: 1.
   */
  readonly commandQos?: 0 | 1 | undefined;
  /** True: the broker deletes the stored session and stores nothing. Default: false. */
  readonly cleanSession?: boolean | undefined;
}

/** The maximum number of QoS 1 messages in flight to this server, MQTT 5. */
const RECEIVE_MAXIMUM = 200;
/** The maximum message size in bytes that is announced with MQTT 5. */
const MAX_MESSAGE_BYTES = 1024 * 1024;
/** Larger packets close the connection, in bytes; MQTT 3.1.1 cannot announce a limit. */
export const MAX_PACKET_BYTES = 16 * 1024 * 1024;
const MAX_PACKET_HEAD_BYTES = 5;

/** Returns the library's options for one network connection; its client is not reused. Throws if the url is invalid. */
export function getClientOptions(
  settings: BrokerSettings,
  version: MqttVersion,
  connectTimeoutMs: number,
): IClientOptions {
  const { clientId, keepaliveSeconds, sessionExpirySeconds, cleanSession = false } = settings;
  const isMqtt5 = version === '5';
  return {
    ...getAddressOptions(settings),
    ...getTlsOptions(settings),
    ...(settings.username !== undefined && { username: settings.username }),
    ...(settings.password !== undefined && { password: settings.password }),
    clientId,
    clean: cleanSession,
    keepalive: keepaliveSeconds,
    protocolId: 'MQTT',
    protocolVersion: isMqtt5 ? 5 : 4, // MQTT 3.1.1 has the protocol level 4
    ...(isMqtt5 && {
      properties: {
        sessionExpiryInterval: cleanSession ? 0 : sessionExpirySeconds,
        receiveMaximum: RECEIVE_MAXIMUM,
        maximumPacketSize: MAX_MESSAGE_BYTES,
      },
    }),
    connectTimeout: connectTimeoutMs,
    // The library must never connect again or resend anything: each network connection has its own client.
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    // The default provider reuses identifiers that are still in use.
    messageIdProvider: new UniqueMessageIdProvider(),
    timerVariant: 'native',
  };
}

/** Returns the address of the broker, and the path of a WebSocket. */
function getAddressOptions({ url, serverName }: BrokerSettings): IClientOptions {
  const { protocol, hostname, port, pathname, search } = new URL(url);
  const scheme = protocol.slice(0, -1) as 'mqtt' | 'mqtts' | 'ws' | 'wss';
  const isWeb = scheme === 'ws' || scheme === 'wss';
  // Sockets need IPv6 addresses without brackets, WebSocket URLs with them.
  const host = isWeb ? hostname : hostname.replace(/^\[(.*)\]$/, '$1');
  return {
    protocol: scheme,
    host,
    hostname: host,
    port: port === '' ? { mqtt: 1883, mqtts: 8883, ws: 80, wss: 443 }[scheme] : Number(port),
    ...(isWeb && { path: `${pathname}${search}`, wsOptions: { maxPayload: MAX_PACKET_BYTES + MAX_PACKET_HEAD_BYTES } }),
    ...(serverName !== undefined && { servername: serverName }),
  };
}

/** Returns the TLS options; empty for a url without TLS. WebSockets read them from `wsOptions`. */
function getTlsOptions({ url, ca, certificate, privateKey, serverName }: BrokerSettings): IClientOptions {
  if (!url.startsWith('mqtts:') && !url.startsWith('wss:')) return {};
  const tls = {
    rejectUnauthorized: true,
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { cert: certificate }),
    ...(privateKey !== undefined && { key: privateKey }),
  };
  return { ...tls, wsOptions: { ...tls, ...(serverName !== undefined && { servername: serverName }) } };
}
