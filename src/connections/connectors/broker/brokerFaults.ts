/** Why there is no connection to a broker. Never contains a secret. */
export interface BrokerFault {
  /** snake_case, for example `name_not_found`, `certificate_expired`, `authentication_rejected`. */
  readonly code: string;
  /** The problem and how to fix it. */
  readonly message: string;
  /** A person must change something, so retrying soon is useless. */
  readonly isFatal: boolean;
}

/** The codes of the faults with which MQTT 3.1.1 brokers react to MQTT 5. */
export const OLDER_VERSION_FAULTS: ReadonlySet<string> = new Set([
  'unsupported_protocol',
  'closed',
  'connection_lost',
  'protocol_error',
]);

/** A fault as a row of the tables below. */
type FaultRow = readonly [code: string, message: string, isFatal: boolean];

const SIGN_IN: FaultRow = [
  'authentication_rejected',
  'the broker rejects the user name or the password; check both against the configuration of the broker',
  true,
];
const NOT_AUTHORIZED: FaultRow = [
  'not_authorized',
  'the broker does not allow this client to connect; grant it permission to connect, or use another user',
  true,
];
const CLIENT_ID: FaultRow = [
  'client_id_rejected',
  'the broker rejects the client id; set a client id that it allows',
  true,
];
const VERSION: FaultRow = [
  'unsupported_protocol',
  'the broker does not support this version of MQTT; choose another protocol, or `auto`',
  true,
];
const UNKNOWN_AUTHORITY: FaultRow = [
  'certificate_unknown',
  "the broker's certificate was issued by an unknown authority; set that authority's certificate as caCertificate",
  true,
];
const UNAVAILABLE: FaultRow = ['broker_unavailable', 'the broker is currently unavailable', false];
const TAKEN_OVER: FaultRow = [
  'session_taken_over',
  'another client with the same client id took over the session; give each client a unique client id',
  false,
];

const USE_ANOTHER_SERVER: FaultRow = [
  'use_another_server',
  'the broker asks its clients to use another broker; set the url of that broker',
  true,
];
const WILDCARD_NOT_SUPPORTED =
  'the broker does not support subscriptions with wildcards, which the topics of the connection need; use a broker that supports them';

/** By the return code of an MQTT 3.1.1 CONNACK. */
const CONNACK_FAULTS: Readonly<Record<number, FaultRow>> = {
  1: VERSION,
  2: CLIENT_ID,
  3: UNAVAILABLE,
  4: SIGN_IN,
  5: NOT_AUTHORIZED,
};
/** By the reason code of an MQTT 5 CONNACK or DISCONNECT. */
const REASON_FAULTS: Readonly<Record<number, FaultRow>> = {
  0: ['broker_stopping', 'the broker closed the connection normally, as brokers do when they stop', false],
  1: VERSION, // brokers that only support 3.1.1 use its code
  0x80: ['unspecified_error', 'the broker closed the connection because of an error that it does not name', false],
  0x81: ['malformed_packet', 'the broker reports a malformed packet of this server; check its log', false],
  0x82: ['protocol_error', 'the broker reports a violation of the MQTT protocol by this server; check its log', false],
  0x83: [
    'implementation_specific_error',
    'the broker closed the connection for an implementation-specific reason; check its log',
    false,
  ],
  0x84: VERSION,
  0x85: CLIENT_ID,
  0x86: SIGN_IN,
  0x87: NOT_AUTHORIZED,
  0x88: UNAVAILABLE,
  0x89: UNAVAILABLE,
  0x8a: ['banned', 'the broker has banned this client; lift the ban at the broker', true],
  0x8b: ['broker_stopping', 'the broker is shutting down', false],
  0x8c: [
    'authentication_rejected',
    'the broker requires an authentication method other than user name and password',
    true,
  ],
  0x8d: ['keepalive_timeout', 'the broker received nothing from this server for too long', false],
  0x8e: TAKEN_OVER,
  0x8f: ['topic_filter_invalid', 'the broker does not allow a topic filter of the connection; check its topics', true],
  0x90: ['topic_name_invalid', 'the broker does not allow the topic of a message of this server', false],
  0x93: [
    'receive_maximum_exceeded',
    'the broker reports more unacknowledged messages of this server than it accepts',
    false,
  ],
  0x95: ['packet_too_large', 'the broker rejects a message of this server as too large', false],
  0x96: ['message_rate_too_high', 'the broker reports too many messages per second of this server', false],
  0x97: ['quota_exceeded', 'the broker reports that a quota is exceeded; raise the quota at the broker', false],
  0x98: ['administrative_action', 'an administrator closed the connection at the broker', false],
  0x99: ['payload_format_invalid', 'the broker does not accept the payload of a message of this server', false],
  0x9b: [
    'qos_not_supported',
    'the broker does not support the QoS of a message of this server; allow QoS 1 at the broker, or set commandQos to 0',
    false,
  ],
  0x9c: USE_ANOTHER_SERVER,
  0x9d: USE_ANOTHER_SERVER,
  0x9f: ['connection_rate_exceeded', 'the broker reports too many connections per second', false],
  0xa0: [
    'maximum_connect_time',
    'the broker closed the connection because it lasted as long as the broker allows',
    false,
  ],
  0xa1: ['subscription_ids_not_supported', 'the broker does not support subscription identifiers', false],
  0xa2: ['subscription_wildcard_not_supported', WILDCARD_NOT_SUPPORTED, true],
};

/** By the error code of Node.js. */
const NETWORK_FAULTS: Readonly<Record<string, FaultRow>> = {
  ENOTFOUND: [
    'name_not_found',
    'the host of the url is unknown; check its name, and that this server can resolve it',
    false,
  ],
  EAI_AGAIN: ['name_not_found', 'the host of the url could not be resolved: DNS is temporarily unavailable', false],
  ECONNREFUSED: [
    'connection_refused',
    'nothing listens on that host and port; check that the broker runs and that the port of the url is correct',
    false,
  ],
  ECONNRESET: [
    'connection_lost',
    'the connection was reset; if it never works, check that the port supports the protocol of the url',
    false,
  ],
  EPIPE: ['connection_lost', 'the connection was lost', false],
  ETIMEDOUT: ['timed_out', 'the broker does not respond; check that no firewall blocks the connection', false],
  EHOSTUNREACH: ['unreachable', 'there is no route to the host of the url', false],
  ENETUNREACH: ['unreachable', 'there is no route to the network of the host of the url', false],
};

/** By the error code of OpenSSL or Node.js. */
const CERTIFICATE_FAULTS: Readonly<Record<string, FaultRow>> = {
  CERT_HAS_EXPIRED: [
    'certificate_expired',
    "the broker's certificate has expired; renew it at the broker, and check the clock of this machine",
    true,
  ],
  CERT_NOT_YET_VALID: [
    'certificate_not_yet_valid',
    "the broker's certificate is not valid yet; check the clock of this machine",
    true,
  ],
  ERR_TLS_CERT_ALTNAME_INVALID: [
    'certificate_wrong_name',
    "the broker's certificate is for another name; use the name in the certificate in the url, or set it as serverName",
    true,
  ],
  DEPTH_ZERO_SELF_SIGNED_CERT: [
    'certificate_unknown',
    "the broker's certificate is self-signed; set it as caCertificate if you trust it",
    true,
  ],
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  CERT_SIGNATURE_FAILURE: [
    'certificate_unknown',
    "the broker's certificate was not signed by the authority in caCertificate",
    true,
  ],
  CERT_REVOKED: ['certificate_revoked', "the broker's certificate is revoked; renew it at the broker", true],
};

/** The prefixes of the error codes that OpenSSL and Node.js use for a failed TLS handshake. */
const TLS_CODE = /^(?:ERR_SSL_|ERR_OSSL|ERR_TLS_|EPROTO)/;
/** By the text of the TLS error. */
const TLS_FAULTS: readonly (readonly [RegExp, FaultRow])[] = [
  [
    /certificate.required|handshake.failure/i,
    [
      'client_certificate_refused',
      'the broker requires a client certificate that it accepts; set clientCertificate and clientKey',
      true,
    ],
  ],
  [
    /unknown.ca|bad.certificate|alert.certificate|certificate.(?:expired|revoked|unknown)/i,
    [
      'client_certificate_refused',
      'the broker does not accept the client certificate; set a valid one from an authority that the broker trusts',
      true,
    ],
  ],
  [
    /wrong.version|packet.length.too.long/i,
    ['no_tls', 'the port does not support TLS; use the TLS port of the broker, or a url without TLS', true],
  ],
];

/** The message of the library's error for a connection without a CONNACK in time. */
const NO_CONNACK = 'connack timeout';
/** The more precise fault for a connect timeout, by the progress of the connection. */
const TIMEOUT_BY_PROGRESS: Readonly<Record<'reached' | 'secured', FaultRow>> = {
  reached: [
    'tls_timed_out',
    'the host accepts the connection but does not respond to the TLS handshake; check that the port is the TLS port of a broker',
    false,
  ],
  secured: [
    'no_answer',
    'the host accepts the connection but does not respond to CONNECT; check that the port belongs to an MQTT broker, and that the broker is healthy',
    false,
  ],
};

/** The library errors without a code, by message. */
const LIBRARY_FAULTS: Readonly<Record<string, FaultRow>> = {
  [NO_CONNACK]: [
    'timed_out',
    'the broker does not respond in time; check the url, and that no firewall blocks the connection',
    false,
  ],
  'Keepalive timeout': [
    'keepalive_timeout',
    'nothing was received from the broker for 1.5 times the keepalive interval',
    false,
  ],
};

const UNPRINTABLE = /[^\x20-\x7e]/g;

/** Returns the fault for the reason code of a CONNACK or DISCONNECT. */
export function getReasonFault(reason: number, isMqtt5: boolean): BrokerFault {
  const row = isMqtt5 ? REASON_FAULTS[reason] : CONNACK_FAULTS[reason];
  return row
    ? toFault(row)
    : {
        code: `reason_${reason}`,
        message: `the broker closed the connection with reason code ${reason}`,
        isFatal: false,
      };
}

/**
 * Returns the fault for an error of the network, TLS or the MQTT library. `progress`: how far the connection got:
 * `reached`: only TCP is connected and TLS must follow; `secured`: everything before the first MQTT packet is done.
 */
export function getErrorFault(error: unknown, progress?: 'reached' | 'secured'): BrokerFault {
  const code = getErrorCode(error);
  const text = error instanceof Error ? error.message : '';
  const row = NETWORK_FAULTS[code] ?? CERTIFICATE_FAULTS[code];
  if (row) return toFault(row);
  if (TLS_CODE.test(code) || text.startsWith('TLS')) return createTlsFault(`${code} ${text}`);
  if (text === NO_CONNACK && progress) return toFault(TIMEOUT_BY_PROGRESS[progress]);
  const libraryRow = LIBRARY_FAULTS[text];
  if (libraryRow) return toFault(libraryRow);
  if (text.startsWith('Unexpected server response'))
    return {
      code: 'no_websocket',
      message: `the web server does not accept MQTT over WebSocket (${toPrintable(text)}); check the path of the url`,
      isFatal: false,
    };
  return {
    code: 'protocol_error',
    message: `the broker violates the MQTT protocol (${toPrintable(text)}); check that the port belongs to an MQTT broker`,
    isFatal: false,
  };
}

/** The fault of a connection that the broker closed without a reason. */
export const CLOSED: BrokerFault = {
  code: 'closed',
  message: 'the broker closed the connection without a reason',
  isFatal: false,
};

/**
 * Returns the fault of an accepted connection that the broker closed without a reason. Mosquitto does this to a client
 * that another one with its client id replaces.
 */
export function createClosedFault(clientId: string): BrokerFault {
  return {
    ...CLOSED,
    message: `${CLOSED.message}: it stopped, or another client uses the client id ${JSON.stringify(clientId)}`,
  };
}

/** Returns the fault of an accepted connection that the broker closed before it acknowledged the subscription. */
export function closedBeforeSubscription(clientId: string, filters: readonly string[]): BrokerFault {
  const causes = `another client uses the client id ${JSON.stringify(clientId)}, or the user of the connection has no permission to subscribe to ${formatList(filters)}`;
  return {
    ...CLOSED,
    message: `the broker accepted this client and closed the connection before it acknowledged the subscription: it is stopping, ${causes}`,
  };
}

/** The fault of a broker that does not acknowledge a published command. */
export const NO_ACKNOWLEDGEMENT: BrokerFault = {
  code: 'no_acknowledgement',
  message: 'the broker did not acknowledge a command within 10 s after its deadline; check that the broker is healthy',
  isFatal: false,
};

/** Returns the fault for a waiting message that is too large to read. Sizes in bytes. */
export function packetTooLarge(bytes: number, max: number): BrokerFault {
  return {
    code: 'packet_too_large',
    message: `a message of ${bytes} bytes waits at the broker, and this server reads at most ${max}; limit the message size at the broker, and set another client id if the message remains there`,
    isFatal: true,
  };
}

/** Returns the fault of a rejected subscription. */
export function refusedSubscription(filters: readonly string[]): BrokerFault {
  return {
    code: 'subscription_refused',
    message: `the broker rejects the subscription to ${formatList(filters)}; grant the user of the connection permission to subscribe to it`,
    isFatal: true,
  };
}

/** Returns the fault of a subscription without a response. */
export function unansweredSubscription(filters: readonly string[]): BrokerFault {
  return {
    code: 'subscription_unanswered',
    message: `the broker does not respond to the subscription to ${formatList(filters)}; check that the broker is healthy, and that the user of the connection has permission to subscribe to it`,
    isFatal: false,
  };
}

/** Returns the fault of filters with wildcards at a broker that does not support wildcards. */
export function wildcardNotSupported(filters: readonly string[]): BrokerFault {
  return {
    code: 'subscription_wildcard_not_supported',
    message: `${WILDCARD_NOT_SUPPORTED} (${formatList(filters)})`,
    isFatal: true,
  };
}

/** Returns the fault of a subscription that exceeds the maximum packet size of the broker. Sizes in bytes. */
export function subscriptionTooLarge(bytes: number, max: number): BrokerFault {
  return {
    code: 'subscription_too_large',
    message: `the subscription has ${bytes} bytes, and the broker accepts at most ${max}; raise the maximum packet size at the broker, or use shorter topics`,
    isFatal: true,
  };
}

/** An error with a fault. */
export class BrokerError extends Error {
  constructor(readonly fault: BrokerFault) {
    super(fault.message);
  }
}

/** Returns the fault for an error of the TLS handshake, by the text of the error. */
function createTlsFault(text: string): BrokerFault {
  const row = TLS_FAULTS.find(([pattern]) => pattern.test(text))?.[1];
  return row
    ? toFault(row)
    : {
        code: 'tls_failed',
        message: `the TLS handshake failed (${toPrintable(text.trim())}); check that certificates and key are in PEM format and belong together`,
        isFatal: true,
      };
}

/** Returns the code of a Node.js error, for example `ECONNREFUSED`; empty if it has none. */
function getErrorCode(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (typeof code === 'string') return code;
  // Node.js tried several addresses, and each one failed with its own error: the first one is reported.
  return error instanceof AggregateError && error.errors.length > 0 ? getErrorCode(error.errors[0]) : '';
}

function formatList(filters: readonly string[]): string {
  return filters.map((filter) => JSON.stringify(filter)).join(', ');
}

function toFault([code, message, isFatal]: FaultRow): BrokerFault {
  return { code, message, isFatal };
}

/** Replaces control and non-ASCII characters, and truncates the text to 120 characters. */
function toPrintable(text: string): string {
  return text.replace(UNPRINTABLE, '?').slice(0, 120);
}
