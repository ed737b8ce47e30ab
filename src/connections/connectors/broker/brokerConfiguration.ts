import type { Violation } from '../../../kernel/errors';
import type { JsonObject } from '../../connectorType';
import type { BrokerSettings, MqttVersion } from './brokerSettings';

const DEFAULT_KEEPALIVE_SECONDS = 30;
const DEFAULT_SESSION_EXPIRY_SECONDS = 604_800;
/** The pattern of a PEM block, for JSON Schema. */
const PEM_PATTERN = '^\\s*-----BEGIN [A-Z0-9 ]+-----[\\s\\S]+-----END [A-Z0-9 ]+-----\\s*$';
/** Returns the schema of a property that contains a PEM text. */
const pemSchema = (title: string, description: string): JsonObject => ({
  type: 'string',
  title,
  description: `${description}, as PEM text (-----BEGIN …).`,
  pattern: PEM_PATTERN,
  maxLength: 65_536,
});

/** The properties of a connection configuration that all MQTT-based connectors share: how to reach the broker. */
export const BROKER_PROPERTIES: JsonObject = {
  url: {
    type: 'string',
    format: 'uri',
    title: 'Broker',
    description:
      'URL of the broker, for example mqtts://broker.site.example:8883. Schemes: mqtt, mqtts, ws, wss. Without user and password.',
    maxLength: 2048,
  },
  protocol: {
    enum: ['auto', '5', '3.1.1'],
    default: 'auto',
    title: 'Protocol',
    description: 'MQTT version; auto tries 5, then 3.1.1.',
  },
  clientId: {
    type: 'string',
    minLength: 1,
    maxLength: 128,
    pattern: '^[!-~]+$',
    title: 'Client id',
    description: 'Must be unique at the broker. Default: derived from the id of the connection.',
  },
  username: { type: 'string', minLength: 1, maxLength: 1024, title: 'User' },
  password: { type: 'string', minLength: 1, maxLength: 4096, title: 'Password' },
  caCertificate: pemSchema(
    'Certificate authority',
    'CA certificate that signed the certificate of the broker, if it is not a public CA',
  ),
  clientCertificate: pemSchema('Client certificate', 'Certificate that authenticates this server at the broker'),
  clientKey: pemSchema('Client key', 'Private key of the client certificate'),
  serverName: {
    type: 'string',
    minLength: 1,
    maxLength: 255,
    title: 'Server name',
    description: 'Name that the certificate of the broker must contain, if it differs from the host of the URL.',
  },
  keepaliveSeconds: {
    type: 'integer',
    minimum: 5,
    maximum: 3600,
    default: DEFAULT_KEEPALIVE_SECONDS,
    title: 'Keepalive',
    description:
      'Interval of keepalive packets on an idle connection, in seconds; a lost connection is detected within 1.5 times this interval.',
  },
  sessionExpirySeconds: {
    type: 'integer',
    minimum: 60,
    maximum: 4_294_967_294,
    default: DEFAULT_SESSION_EXPIRY_SECONDS,
    title: 'Session',
    description: 'How long the broker stores messages while this server is disconnected, in seconds (MQTT 5).',
  },
  commandQos: {
    enum: [1, 0],
    default: 1,
    title: 'QoS of commands',
    description:
      'QoS with which commands are published. Set 0 only if the broker does not support QoS 1: then no command becomes delivered, a lost one is not detected, and only a response of the device or a sensor confirms it.',
  },
};

/** The write-only properties. */
export const BROKER_SECRETS = ['password', 'clientKey'] as const;

/**
 * The properties that determine which broker receives the secrets: its address, and how its certificate is verified.
 * The identity of this server at the broker does not matter for that.
 */
export const BROKER_TARGET = ['url', 'serverName', 'caCertificate'] as const;

/** Reads the broker settings from a valid configuration with its secret fields. */
export function getBrokerSettings(configuration: JsonObject, defaultClientId: string): BrokerSettings {
  const { protocol, keepaliveSeconds, sessionExpirySeconds, commandQos } = configuration;
  return {
    url: String(configuration['url']),
    protocol: protocol === '5' || protocol === '3.1.1' ? (protocol satisfies MqttVersion) : undefined,
    clientId: readText(configuration['clientId']) ?? defaultClientId,
    username: readText(configuration['username']),
    password: readText(configuration['password']),
    ca: readText(configuration['caCertificate']),
    certificate: readText(configuration['clientCertificate']),
    privateKey: readText(configuration['clientKey']),
    serverName: readText(configuration['serverName']),
    keepaliveSeconds: typeof keepaliveSeconds === 'number' ? keepaliveSeconds : DEFAULT_KEEPALIVE_SECONDS,
    sessionExpirySeconds:
      typeof sessionExpirySeconds === 'number' ? sessionExpirySeconds : DEFAULT_SESSION_EXPIRY_SECONDS,
    commandQos: commandQos === 0 ? 0 : 1,
  };
}

/** Reads an optional text of a valid configuration. */
export function readText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** The supported URL schemes, as `URL.protocol` returns them. */
const SCHEMES = ['mqtt:', 'mqtts:', 'ws:', 'wss:'];
/** The properties that are only allowed with TLS. */
const TLS_ONLY_FIELDS = ['caCertificate', 'clientCertificate', 'clientKey', 'serverName'] as const;

/** Validates what a schema cannot express about these properties. */
export function checkBroker(configuration: JsonObject): Violation[] {
  const { url, username, password, clientCertificate, clientKey } = configuration;
  const violations = typeof url === 'string' ? checkUrl(new URL(url), configuration) : [];
  if (password !== undefined && username === undefined)
    violations.push(
      createViolation('username', 'is required with `password`: set the user that the password belongs to'),
    );
  if (clientCertificate !== undefined && clientKey === undefined)
    violations.push(
      createViolation(
        'clientKey',
        'is required with `clientCertificate`: set the private key of the client certificate',
      ),
    );
  if (clientKey !== undefined && clientCertificate === undefined)
    violations.push(
      createViolation('clientCertificate', 'is required with `clientKey`: set the certificate of the client key'),
    );
  return violations;
}

/** Validates the url, and rejects settings that need TLS if the url has none. */
function checkUrl({ protocol, hostname, username, password, hash }: URL, configuration: JsonObject): Violation[] {
  if (!SCHEMES.includes(protocol))
    return [createViolation('url', 'must start with mqtt://, mqtts://, ws:// or wss://')];
  const violations: Violation[] = [];
  if (hostname === '')
    violations.push(createViolation('url', 'must contain a host, for example mqtts://broker.site.example:8883'));
  if (username !== '' || password !== '')
    violations.push(
      createViolation('url', 'must not contain a user or a password: set `username` and `password` instead'),
    );
  if (hash !== '') violations.push(createViolation('url', 'must not contain a fragment (`#…`)'));
  if (protocol === 'mqtts:' || protocol === 'wss:') return violations;
  const tlsOnlyFields = TLS_ONLY_FIELDS.filter((name) => configuration[name] !== undefined);
  return [
    ...violations,
    ...tlsOnlyFields.map((name) =>
      createViolation(name, `requires TLS: use a url that starts with ${protocol === 'ws:' ? 'wss://' : 'mqtts://'}`),
    ),
  ];
}

/** Creates a violation of a property of the configuration. */
export function createViolation(name: string, description: string): Violation {
  return { field: `configuration.${name}`, description };
}
