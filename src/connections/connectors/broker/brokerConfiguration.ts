import type { Violation } from '../../../kernel/errors';
import type { JsonObject } from '../../connectorType';
import type { BrokerSettings, MqttVersion } from './brokerSettings';

const KEEPALIVE = 30;
const SESSION_EXPIRY = 604_800;
const PEM = '^\\s*-----BEGIN [A-Z0-9 ]+-----[\\s\\S]+-----END [A-Z0-9 ]+-----\\s*$';
const pem = (title: string, description: string): JsonObject => ({ type: 'string', title, description: `${description}, as PEM text (-----BEGIN …).`, pattern: PEM, maxLength: 65_536 });

/** How to reach a broker: the properties of a connection's configuration that all connectors over MQTT share. */
export const BROKER_PROPERTIES: JsonObject = {
  url: { type: 'string', format: 'uri', title: 'Broker', description: 'Where the broker is, for example mqtts://broker.site.example:8883; mqtt:, mqtts:, ws: or wss:, without user and password.', maxLength: 2048 },
  protocol: { enum: ['auto', '5', '3.1.1'], default: 'auto', title: 'Protocol', description: 'The version of MQTT; auto tries 5, then 3.1.1.' },
  clientId: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[!-~]+$', title: 'Client id', description: 'Unless given, made of the id of the connection. No other client may have the same.' },
  username: { type: 'string', minLength: 1, maxLength: 1024, title: 'User' },
  password: { type: 'string', minLength: 1, maxLength: 4096, title: 'Password' },
  caCertificate: pem('Certificate authority', 'The certificate that signed that of the broker, where it is no public one'),
  clientCertificate: pem('Client certificate', 'What the broker knows this server by'),
  clientKey: pem('Client key', 'The private key of the client certificate'),
  serverName: { type: 'string', minLength: 1, maxLength: 255, title: 'Server name', description: 'The name that the certificate of the broker must have, where it is not the one in the address.' },
  keepaliveSeconds: { type: 'integer', minimum: 5, maximum: 3600, default: KEEPALIVE, title: 'Keepalive', description: 'How often a quiet link is tried, in seconds; a dead one is noticed within one and a half of these.' },
  sessionExpirySeconds: { type: 'integer', minimum: 60, maximum: 4_294_967_294, default: SESSION_EXPIRY, title: 'Session', description: 'How long the broker keeps messages while this server is away, in seconds (MQTT 5).' },
};

/** Those of them that are write-only. */
export const BROKER_SECRETS = ['password', 'clientKey'] as const;

/** Those that say which broker gets them: its address, and what its certificate is held against. Who we are there is no part of it. */
export const BROKER_PLACE = ['url', 'serverName', 'caCertificate'] as const;

/** What a configuration that was checked says of the broker, its secret fields among the others. `clientId`: where it gives none. */
export function brokerSettingsOf(configuration: JsonObject, clientId: string): BrokerSettings {
  const { protocol, keepaliveSeconds, sessionExpirySeconds } = configuration;
  return {
    url: String(configuration['url']),
    protocol: protocol === '5' || protocol === '3.1.1' ? (protocol satisfies MqttVersion) : undefined,
    clientId: textOf(configuration['clientId']) ?? clientId,
    username: textOf(configuration['username']),
    password: textOf(configuration['password']),
    ca: textOf(configuration['caCertificate']),
    certificate: textOf(configuration['clientCertificate']),
    privateKey: textOf(configuration['clientKey']),
    serverName: textOf(configuration['serverName']),
    keepaliveSeconds: typeof keepaliveSeconds === 'number' ? keepaliveSeconds : KEEPALIVE,
    sessionExpirySeconds: typeof sessionExpirySeconds === 'number' ? sessionExpirySeconds : SESSION_EXPIRY,
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

const SCHEMES = ['mqtt:', 'mqtts:', 'ws:', 'wss:'];
const TLS_ONLY = ['caCertificate', 'clientCertificate', 'clientKey', 'serverName'] as const;

/** What is wrong with these properties that a schema cannot say. */
export function checkBroker(configuration: JsonObject): Violation[] {
  const { url, username, password, clientCertificate, clientKey } = configuration;
  const violations = typeof url === 'string' ? checkUrl(new URL(url), configuration) : [];
  if (password !== undefined && username === undefined) violations.push(violation('username', 'is missing; give the user that the password is of'));
  if (clientCertificate !== undefined && clientKey === undefined) violations.push(violation('clientKey', 'is missing; give the private key of the client certificate'));
  if (clientKey !== undefined && clientCertificate === undefined) violations.push(violation('clientCertificate', 'is missing; give the certificate of the client key'));
  return violations;
}

function checkUrl({ protocol, hostname, username, password, hash }: URL, configuration: JsonObject): Violation[] {
  if (!SCHEMES.includes(protocol)) return [violation('url', 'must begin with mqtt://, mqtts://, ws:// or wss://')];
  const violations: Violation[] = [];
  if (hostname === '') violations.push(violation('url', 'names no host; give one, for example mqtts://broker.site.example:8883'));
  if (username !== '' || password !== '') violations.push(violation('url', 'may hold no user and no password; give them as `username` and `password`'));
  if (hash !== '') violations.push(violation('url', 'may hold no fragment (`#…`)'));
  if (protocol === 'mqtts:' || protocol === 'wss:') return violations;
  const useless = TLS_ONLY.filter((name) => configuration[name] !== undefined);
  return [...violations, ...useless.map((name) => violation(name, `has no use without TLS; give a url that begins with ${protocol === 'ws:' ? 'wss://' : 'mqtts://'}`))];
}

function violation(name: string, description: string): Violation {
  return { field: `configuration.${name}`, description };
}
