/** The number of hints, from the first, that describe a configuration error, which a retry cannot fix. */
const CONFIGURATION_HINT_COUNT = 3;
/**
 * Patterns of error texts of grpc-js and Node.js, each with the likely cause and how to fix it. The first match counts;
 * configuration errors come first.
 */
const HINTS: readonly (readonly [RegExp, (server: string) => string])[] = [
  [
    /wrong version number|packet length too long|record layer failure/i,
    (server) => `${server} does not use TLS; if this is intended, set insecure: true instead of ca`,
  ],
  [
    /does not match certificate|ERR_TLS_CERT_ALTNAME_INVALID/i,
    (server) =>
      `the certificate of ${server} is for another name; use a name in the certificate, or add this one to tls.names of the server`,
  ],
  [
    /self.signed certificate|unable to verify|local issuer|certificate signature failure|DEPTH_ZERO/i,
    (server) =>
      `the certificate of ${server} is not signed by the given CA; use tls/ca.pem from the data folder of the server`,
  ],
  [
    /certificate has expired|certificate is not yet valid/i,
    (server) => `the certificate of ${server} has expired or is not yet valid; check the clocks of both machines`,
  ],
  [
    /ENOTFOUND|EAI_AGAIN|Name resolution failed/i,
    (server) => `the name of ${server} cannot be resolved; check the address and the DNS`,
  ],
  [
    /ECONNREFUSED/i,
    (server) => `${server} refused the connection; check that the server is running and that this is its gRPC port`,
  ],
  [
    /ETIMEDOUT|EHOSTUNREACH|ENETUNREACH/i,
    (server) => `${server} is unreachable; check the address, the network and the firewalls`,
  ],
  [
    /Failed to connect/i,
    (server) =>
      `${server} closed the connection; if the server uses TLS (the default), set ca instead of insecure: true, and check that this is its gRPC port`,
  ],
];

/** Returns the likely cause of a connection error and how to fix it; undefined if it is unknown. */
export function getErrorHint(details: string, address: string | undefined): string | undefined {
  const server = address ?? 'the server';
  const [, formatHint] = HINTS.find(([pattern]) => pattern.test(details)) ?? [];
  return formatHint?.(server);
}

/**
 * Returns whether a call failed because of a configuration error: TLS on one side only, the wrong CA, or another name
 * in the certificate.
 */
export function isConfigurationError({
  status,
  reason,
  message,
}: {
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}): boolean {
  const configurationHints = HINTS.slice(0, CONFIGURATION_HINT_COUNT);
  return status === 'UNAVAILABLE' && reason === '' && configurationHints.some(([pattern]) => pattern.test(message));
}
