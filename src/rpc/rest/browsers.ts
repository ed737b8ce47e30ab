import type { FastifyReply, FastifyRequest } from 'fastify';

/** What a browser may do with an answer, whatever it is. Pages and pictures set what they need instead. */
const ALWAYS = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
};
// What an answer depends on beside its address: a cache may not give it to somebody else.
const DEPENDS_ON = 'accept-encoding, x-api-key, x-organization-id';
const ALLOWED = {
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers': 'content-type, x-api-key, x-organization-id, x-request-id, if-match, if-none-match, if-range, range, last-event-id',
  'access-control-max-age': '3600',
};
const EXPOSED = 'etag, x-request-id, retry-after, location, allow, content-range, accept-ranges, content-disposition';

/** What browsers are told: the headers of every answer, and which pages of other origins may call. */
export class Browsers {
  private readonly origins: ReadonlySet<string>;
  private readonly always: Readonly<Record<string, string>>;

  /** `corsOrigins`: origins, or `*` for all; empty: no page of another origin may call. */
  constructor(corsOrigins: readonly string[]) {
    this.origins = new Set(corsOrigins);
    const isOpen = this.origins.has('*');
    this.always = {
      ...ALWAYS,
      vary: isOpen || corsOrigins.length === 0 ? DEPENDS_ON : `${DEPENDS_ON}, origin`,
      ...(isOpen && { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED }),
    };
  }

  /** Sets what every answer carries. A preflight of a page that may call is answered at once: then true. */
  open(request: FastifyRequest, reply: FastifyReply): boolean {
    void reply.headers(this.always);
    if (this.origins.size === 0) return false;
    const { origin } = request.headers;
    if (origin === undefined || !(this.origins.has(origin) || this.origins.has('*'))) return false;
    if (!this.origins.has('*')) void reply.headers({ 'access-control-allow-origin': origin, 'access-control-expose-headers': EXPOSED });
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return false;
    void reply.code(204).headers(ALLOWED).send();
    return true;
  }
}
