import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DOCS_CSP, DOCS_FILES, readDocsFile, OPENAPI_FILES, renderOpenApiText } from '../openapi/docs';
import { compress, chooseEncoding, type Encoding } from './compression';
import { computeDigest, matchesEtag, computeTag } from './conditional';
import { JSON_TYPE } from './errorResponse';

// Pages are compressed once and sent often.
const PAGE_BROTLI_QUALITY = 9;
const DAY_SECONDS = 86_400;

/** A document or a file, as it is sent. */
interface Page {
  readonly contentType: string;
  readonly body: Buffer;
  readonly etag: string;
  readonly cacheControl: string;
  /** The compressed bodies, created on first use. */
  readonly bodyByEncoding: Map<Encoding, Promise<Buffer>>;
}

/**
 * Serves the OpenAPI documents and the documentation pages without authentication. `baseUrl`: the URL at which clients
 * reach this server; empty: the URL of the request. Each page is created on first use. Returns the paths.
 */
export function addPages(app: FastifyInstance, baseUrl: string): readonly string[] {
  const documents = OPENAPI_FILES.map((name) => {
    const document = memoize(() => renderDocument(name, baseUrl));
    app.get(`/${name}`, (request, reply) => sendPage(request, reply, document()));
    return `/${name}`;
  });
  const redirects = ['/', '/docs'];
  for (const path of redirects) app.get(path, (_, reply) => reply.redirect('docs/', 308));
  const files = DOCS_FILES.map((name) => {
    const path = `/docs/${name === 'index.html' ? '' : name}`;
    const page = memoize(() => ({
      ...readDocsFile(name),
      cacheControl: name.endsWith('.html') ? 'no-cache' : `public, max-age=${DAY_SECONDS}`,
      bodyByEncoding: new Map(),
    }));
    app.get(path, (request, reply) => sendPage(request, reply.header('content-security-policy', DOCS_CSP), page()));
    return path;
  });
  return [...documents, ...redirects, ...files];
}

/** Renders an OpenAPI document for the URL of the server. */
function renderDocument(name: (typeof OPENAPI_FILES)[number], baseUrl: string): Page {
  const body = Buffer.from(renderOpenApiText(name, baseUrl));
  return {
    contentType: JSON_TYPE,
    body,
    etag: computeTag(computeDigest(body), undefined, false),
    cacheControl: 'no-cache',
    bodyByEncoding: new Map(),
  };
}

/** Returns a function that creates the page on its first call. */
function memoize(create: () => Page): () => Page {
  let page: Page | undefined;
  return () => (page ??= create());
}

/**
 * Sends a page, compressed if the client accepts that; 304 if the client already has it. The compressed page has a weak
 * ETag, because its bytes differ.
 */
async function sendPage(request: FastifyRequest, reply: FastifyReply, page: Page): Promise<FastifyReply> {
  const { contentType, body, etag, cacheControl, bodyByEncoding } = page;
  const encoding = chooseEncoding(request.headers['accept-encoding'], body.length);
  void reply.header('etag', encoding === undefined ? etag : `W/${etag}`).header('cache-control', cacheControl);
  if (matchesEtag(request.headers['if-none-match'], etag)) return await reply.code(304).send();
  void reply.header('content-type', contentType);
  if (encoding === undefined) return await reply.send(body);
  const bytes = bodyByEncoding.get(encoding) ?? compress(body, encoding, PAGE_BROTLI_QUALITY);
  bodyByEncoding.set(encoding, bytes);
  return await reply.header('content-encoding', encoding).send(await bytes);
}
