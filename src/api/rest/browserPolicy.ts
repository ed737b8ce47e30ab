import type { FastifyReply, FastifyRequest } from 'fastify';

/** Security headers of every response. Pages and images override some of them. */
const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
};
// The request headers that responses depend on, so that a cache does not serve them to another client.
const VARY = 'accept-encoding, x-api-key, x-organization-id';
const PREFLIGHT_HEADERS = {
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers':
    'content-type, x-api-key, x-organization-id, x-request-id, idempotency-key, if-match, if-none-match, if-range, range, last-event-id',
  'access-control-max-age': '3600',
};
const EXPOSED_HEADERS =
  'etag, x-request-id, retry-after, location, allow, content-range, accept-ranges, content-disposition, idempotency-replayed';

/** Sets the headers for browsers: security headers, and CORS for pages of other origins. */
export class BrowserPolicy {
  private readonly origins: ReadonlySet<string>;
  private readonly headers: Readonly<Record<string, string>>;

  /** `corsOrigins`: the allowed origins, or `*` for all; empty: no page of another origin may call the server. */
  constructor(corsOrigins: readonly string[]) {
    this.origins = new Set(corsOrigins);
    const allowsAll = this.origins.has('*');
    this.headers = {
      ...SECURITY_HEADERS,
      vary: allowsAll || corsOrigins.length === 0 ? VARY : `${VARY}, origin`,
      ...(allowsAll && { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED_HEADERS }),
    };
  }

  /**
   * Sets the headers of a response. If the request is the preflight request of an allowed origin (OPTIONS, by which a
   * browser asks whether a page may call another server), also responds to it. Returns whether it responded.
   */
  applyHeadersOrAnswerPreflight(request: FastifyRequest, reply: FastifyReply): boolean {
    void reply.headers(this.headers);
    if (this.origins.size === 0) return false;
    const { origin } = request.headers;
    if (origin === undefined || !(this.origins.has(origin) || this.origins.has('*'))) return false;
    if (!this.origins.has('*'))
      void reply.headers({ 'access-control-allow-origin': origin, 'access-control-expose-headers': EXPOSED_HEADERS });
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return false;
    void reply.code(204).headers(PREFLIGHT_HEADERS).send();
    return true;
  }
}
