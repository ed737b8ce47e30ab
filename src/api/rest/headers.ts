import { constants, type Http2ServerResponse } from 'node:http2';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, validationFailed } from '../../kernel/errors';
import { truncateForDisplay } from '../../kernel/truncate';
import { chooseRequestId } from '../pipeline/requestId';

// Names of query parameters that usually contain a key, in lower case and with letters only.
const KEY_PARAMETER_NAMES = new Set(['apikey', 'xapikey', 'key', 'token', 'accesstoken', 'authorization']);
const UTF_8: ReadonlySet<string> = new Set(['utf-8', 'utf8']);
// Matches a whole key: signatures and page tokens are random and may contain `plr_` and some letters by chance.
const API_KEY = /(?<![\w-])plr_[0-9A-Za-z]{49}(?![\w-])/;

/** Throws validation_failed for a query that contains an API key: it would appear in logs, histories and referrers. */
export function rejectKeysInUrl(request: FastifyRequest): void {
  for (const [name, value] of request.query as URLSearchParams) {
    const hasKeyName = KEY_PARAMETER_NAMES.has(name.toLowerCase().replaceAll(/[^a-z]/g, ''));
    if (!hasKeyName && !API_KEY.test(value) && !API_KEY.test(name)) continue;
    throw validationFailed([
      {
        field: hasKeyName ? name : '',
        description:
          'API keys must not be part of a URL, where others can read them: send the key in the X-API-Key header, and replace this key',
      },
    ]);
  }
}

/** Throws media_type_unsupported for a compressed body. */
export function requireUncompressed({ headers }: FastifyRequest): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.trim().toLowerCase() === 'identity') return;
  throw unsupportedBody(
    `Content-Encoding \`${truncateForDisplay(encoding, 32)}\` is not supported: send the body uncompressed`,
  );
}

/** Throws media_type_unsupported if Content-Type names a charset other than UTF-8. */
export function requireUtf8({ headers }: FastifyRequest): void {
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8';
  if (UTF_8.has(charset.toLowerCase())) return;
  throw unsupportedBody(`charset \`${truncateForDisplay(charset, 32)}\` is not supported: send the body in UTF-8`);
}

function unsupportedBody(message: string): DomainError {
  return new DomainError('unsupported_media_type', 'media_type_unsupported', message);
}

/** Sets the request id of the response: that of the client if it is valid, otherwise a new one. */
export function setRequestId({ headers }: FastifyRequest, reply: FastifyReply): void {
  void reply.header('x-request-id', chooseRequestId(headers['x-request-id']));
}

/** Returns the request id of the response. */
export function getRequestId(reply: FastifyReply): string {
  return String(reply.getHeader('x-request-id'));
}

/**
 * Adds names of request headers to the Vary header of the response, which tells caches that the response depends on
 * them. The header may have names already; each name appears once.
 */
export function addVary(reply: FastifyReply, ...names: readonly string[]): void {
  const existingNames = String(reply.getHeader('vary') ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  void reply.header('vary', [...new Set([...existingNames, ...names])].join(', '));
}

/** Whether the client has disconnected. */
export function isClientDisconnected({ raw }: FastifyReply): boolean {
  const { stream } = raw as unknown as Partial<Http2ServerResponse>; // a response over HTTP/2 does not report it
  return stream ? stream.destroyed || stream.closed : raw.destroyed;
}

/** Aborts a response in a way that shows the client that it is incomplete: resets the stream or the connection. */
export function abortResponse(reply: FastifyReply): void {
  const { stream } = reply.raw as unknown as Partial<Http2ServerResponse>;
  if (stream) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  else reply.raw.destroy();
}
