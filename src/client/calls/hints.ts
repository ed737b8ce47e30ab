/** How many of the first hints no time makes right. */
const LASTING = 3;
const HINTS: readonly (readonly [RegExp, (server: string) => string])[] = [
  [/wrong version number|packet length too long|record layer failure/i, (server) => `${server} answers without TLS; if that is meant, say insecure: true instead of ca`],
  [/does not match certificate|ERR_TLS_CERT_ALTNAME_INVALID/i, (server) => `the certificate of ${server} is for another name; use a name that stands in it, or add this one to tls.names of the server`],
  [/self.signed certificate|unable to verify|local issuer|certificate signature failure|DEPTH_ZERO/i, (server) => `the certificate of ${server} is not signed by the CA that was given; take tls/ca.pem of the server's data folder`],
  [/certificate has expired|certificate is not yet valid/i, (server) => `the certificate of ${server} is out of its time; look at the clocks of both machines`],
  [/ENOTFOUND|EAI_AGAIN|Name resolution failed/i, (server) => `the name of ${server} is not known here; check the address and the DNS`],
  [/ECONNREFUSED/i, (server) => `nothing listens at ${server}; is the server running, and is this its gRPC port?`],
  [/ETIMEDOUT|EHOSTUNREACH|ENETUNREACH/i, (server) => `${server} cannot be reached; check the address and the firewalls between`],
  [/Failed to connect/i, (server) => `what listens at ${server} hangs up; if it wants TLS, as a Plantroom does unless told otherwise, give ca instead of insecure: true, and look whether it is its gRPC port`],
];

/** What is likely wrong where no Plantroom answered, and what would be right; undefined: nobody knows. */
export function hintOf(details: string, address: string | undefined): string | undefined {
  const server = address ?? 'the server';
  return HINTS.find(([pattern]) => pattern.test(details))?.[1](server);
}

/** Whether a call failed because client and server were not made for one another: no TLS, the wrong CA, another name in the certificate. */
export function isMisconfigured({ status, reason, message }: { readonly status: string; readonly reason: string; readonly message: string }): boolean {
  return status === 'UNAVAILABLE' && reason === '' && HINTS.slice(0, LASTING).some(([pattern]) => pattern.test(message));
}
