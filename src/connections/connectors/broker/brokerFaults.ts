/** Why there is no link to a broker. Never holds a secret. */
export interface BrokerFault {
  /** snake_case, for example `name_not_found`, `certificate_expired`, `sign_in_refused`. */
  readonly code: string;
  /** What is wrong and what would be right. */
  readonly message: string;
  /** Somebody must change something; to try again soon helps nobody. */
  readonly isFatal: boolean;
}

type Row = readonly [code: string, message: string, isFatal: boolean];

const SIGN_IN: Row = ['sign_in_refused', 'the broker refuses the user name or the password; give the ones that the broker knows', true];
const NOT_AUTHORIZED: Row = ['not_authorized', 'the broker does not let this client in; give it the right to connect, or sign in as a user that has it', true];
const CLIENT_ID: Row = ['client_id_refused', 'the broker refuses the client id; give one that it allows', true];
const VERSION: Row = ['unsupported_protocol', 'the broker does not speak this version of MQTT; choose another protocol, or `auto`', true];
const UNAVAILABLE: Row = ['broker_unavailable', 'the broker is not available now', false];
const TAKEN_OVER: Row = ['session_taken_over', 'another client with the same client id took the session over; give each client an id of its own', false];

const CONNACK_3: Readonly<Record<number, Row>> = { 1: VERSION, 2: CLIENT_ID, 3: UNAVAILABLE, 4: SIGN_IN, 5: NOT_AUTHORIZED };
const REASONS: Readonly<Record<number, Row>> = {
  0: ['broker_stopping', 'the broker ended the connection as if all were done; brokers do so when they stop', false],
  1: VERSION, // brokers that know 3.1.1 only answer as that does
  0x84: VERSION,
  0x85: CLIENT_ID,
  0x86: SIGN_IN,
  0x87: NOT_AUTHORIZED,
  0x88: UNAVAILABLE,
  0x89: UNAVAILABLE,
  0x8a: ['banned', 'the broker has banned this client; lift the ban there', true],
  0x8b: ['broker_stopping', 'the broker is shutting down', false],
  0x8c: ['sign_in_refused', 'the broker wants another way of signing in than user name and password', true],
  0x8d: ['keepalive_timeout', 'the broker heard nothing of us for too long', false],
  0x8e: TAKEN_OVER,
  0x95: ['packet_too_large', 'the broker refuses a message of ours as too large', false],
  0x97: ['quota_exceeded', 'the broker says that a quota is exceeded; raise it there', false],
  0x98: ['administrative_action', 'somebody closed the connection at the broker', false],
  0x9f: ['connection_rate_exceeded', 'the broker says that there are too many connections a second', false],
};

const NETWORK: Readonly<Record<string, Row>> = {
  ENOTFOUND: ['name_not_found', 'the host of the url is not known; see that its name is right and that this server can resolve it', false],
  EAI_AGAIN: ['name_not_found', 'the host of the url could not be resolved just now', false],
  ECONNREFUSED: ['connection_refused', 'nothing listens on that host and port; see that the broker runs and that the port of the url is right', false],
  ECONNRESET: ['connection_lost', 'the connection was reset; if it never works, see that the port speaks the protocol of the url', false],
  EPIPE: ['connection_lost', 'the connection was lost', false],
  ETIMEDOUT: ['timed_out', 'the broker does not answer; see that no firewall is between', false],
  EHOSTUNREACH: ['unreachable', 'there is no route to the host of the url', false],
  ENETUNREACH: ['unreachable', 'there is no route to the network of the host of the url', false],
};

const CERTIFICATE: Readonly<Record<string, Row>> = {
  CERT_HAS_EXPIRED: ['certificate_expired', "the broker's certificate has expired; renew it there, and see that this machine's clock is right", true],
  CERT_NOT_YET_VALID: ['certificate_not_yet_valid', "the broker's certificate is not valid yet; see that this machine's clock is right", true],
  ERR_TLS_CERT_ALTNAME_INVALID: ['certificate_wrong_name', "the broker's certificate is for another name; use the name that it is for in the url, or give it as serverName", true],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['certificate_unknown', "the broker's certificate signs itself; give it as caCertificate if you trust it", true],
  SELF_SIGNED_CERT_IN_CHAIN: ['certificate_unknown', "the broker's certificate comes from an authority that is not known here; give that authority's certificate as caCertificate", true],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['certificate_unknown', "the broker's certificate comes from an authority that is not known here; give that authority's certificate as caCertificate", true],
  UNABLE_TO_GET_ISSUER_CERT: ['certificate_unknown', "the broker's certificate comes from an authority that is not known here; give that authority's certificate as caCertificate", true],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['certificate_unknown', "the broker's certificate comes from an authority that is not known here; give that authority's certificate as caCertificate", true],
  CERT_SIGNATURE_FAILURE: ['certificate_unknown', "the broker's certificate was not signed by the authority that is given as caCertificate", true],
  CERT_REVOKED: ['certificate_revoked', "the broker's certificate is revoked; renew it there", true],
};

const TLS = /^(?:ERR_SSL_|ERR_OSSL|ERR_TLS_|EPROTO)/;
const TLS_TEXTS: readonly (readonly [RegExp, Row])[] = [
  [/certificate.required|handshake.failure/i, ['client_certificate_refused', 'the broker wants a client certificate that it knows; give clientCertificate and clientKey', true]],
  [/unknown.ca|bad.certificate|alert.certificate|certificate.(?:expired|revoked|unknown)/i, ['client_certificate_refused', 'the broker does not accept the client certificate; give one that is valid and of an authority that the broker knows', true]],
  [/wrong.version|packet.length.too.long/i, ['no_tls', 'the port does not speak TLS; give the TLS port of the broker, or a url without TLS', true]],
];

const NO_CONNACK = 'connack timeout';
/** The same, by how far it came. */
const SILENT: Readonly<Record<'reached' | 'secured', Row>> = {
  reached: ['tls_timed_out', 'something takes the connection there and does not answer the TLS handshake; see that the port is the TLS port of a broker', false],
  secured: ['no_answer', 'something takes the connection there and does not answer to CONNECT; see that the port is that of an MQTT broker, and that the broker is well', false],
};

/** What the library says without a code. */
const LIBRARY: Readonly<Record<string, Row>> = {
  [NO_CONNACK]: ['timed_out', 'the broker does not answer in time; see that the url is right and that no firewall is between', false],
  'Keepalive timeout': ['keepalive_timeout', 'nothing came from the broker for one and a half keepalives', false],
};

const CONTROL = /[^\x20-\x7e]/g;

/** The fault of a CONNACK's or a DISCONNECT's code. */
export function faultOfReason(reason: number, isMqtt5: boolean): BrokerFault {
  const row = isMqtt5 ? REASONS[reason] : CONNACK_3[reason];
  return row ? fault(row) : { code: `reason_${reason}`, message: `the broker ended the connection with reason ${reason}`, isFatal: false };
}

/**
 * The fault of what the network, TLS or the MQTT library threw. `progress`: how far the connection came: `reached`: TCP alone where there has
 * to be more; `secured`: all that comes before the first packet of MQTT.
 */
export function faultOfError(error: unknown, progress?: 'reached' | 'secured'): BrokerFault {
  const code = codeOf(error);
  const text = error instanceof Error ? error.message : '';
  const row = NETWORK[code] ?? CERTIFICATE[code];
  if (row) return fault(row);
  if (TLS.test(code) || text.startsWith('TLS')) return tlsFault(`${code} ${text}`);
  if (text === NO_CONNACK && progress) return fault(SILENT[progress]);
  const own = LIBRARY[text];
  if (own) return fault(own);
  if (text.startsWith('Unexpected server response')) return { code: 'no_websocket', message: `the web server answers, but not as a broker does (${printable(text)}); see that the path of the url is right`, isFatal: false };
  return { code: 'protocol_error', message: `what came is not what a broker sends (${printable(text)})`, isFatal: false };
}

/** The broker ended the connection and did not say why. */
export const CLOSED: BrokerFault = { code: 'closed', message: 'the broker closed the connection without a reason', isFatal: false };

/** The same after it had let us in. Mosquitto does so to a client that another one with its id replaces, and tells it nothing. */
export function closedOn(clientId: string): BrokerFault {
  return { ...CLOSED, message: `${CLOSED.message}: it stopped, or another client uses the client id ${JSON.stringify(clientId)}` };
}

/** The broker does not acknowledge what we publish. */
export const NO_ACKNOWLEDGEMENT: BrokerFault = { code: 'no_acknowledgement', message: 'the broker did not acknowledge a command until 10 s past its deadline; see that it is well', isFatal: false };

/** What waits at the broker is too much to read. */
export function packetTooLarge(bytes: number, most: number): BrokerFault {
  return { code: 'packet_too_large', message: `a message of ${bytes} bytes waits at the broker, and this server reads at most ${most}; limit the size of messages at the broker, and give the connection another client id if the message stays there`, isFatal: true };
}

/** The broker answers the SUBSCRIBE with a no. */
export function refusedSubscription(filters: readonly string[]): BrokerFault {
  return { code: 'subscription_refused', message: `the broker refuses a subscription of ${listOf(filters)}; give the user of the connection the right to subscribe to it`, isFatal: true };
}

/** The broker does not answer the SUBSCRIBE. */
export function unansweredSubscription(filters: readonly string[]): BrokerFault {
  return { code: 'subscription_unanswered', message: `the broker does not answer the subscription of ${listOf(filters)}; see that it is well, and that the user of the connection has the right to subscribe to it`, isFatal: false };
}

/** An error that carries a fault. */
export class BrokerError extends Error {
  constructor(readonly fault: BrokerFault) {
    super(fault.message);
  }
}

function tlsFault(text: string): BrokerFault {
  const row = TLS_TEXTS.find(([pattern]) => pattern.test(text))?.[1];
  return row ? fault(row) : { code: 'tls_failed', message: `the TLS handshake failed (${printable(text.trim())}); see that certificates and key are PEM and belong together`, isFatal: true };
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (typeof code === 'string') return code;
  // Of several addresses each failed in its own way: the first stands for all.
  return error instanceof AggregateError && error.errors.length > 0 ? codeOf(error.errors[0]) : '';
}

function listOf(filters: readonly string[]): string {
  return filters.map((filter) => JSON.stringify(filter)).join(', ');
}

function fault([code, message, isFatal]: Row): BrokerFault {
  return { code, message, isFatal };
}

function printable(text: string): string {
  return text.replace(CONTROL, '?').slice(0, 120);
}
