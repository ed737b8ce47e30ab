import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DOCS_CSP, DOCS_FILES, readDocsFile, OPENAPI_FILES, renderOpenApiText } from '../openapi/docs';
import { compress, chooseEncoding, type Encoding } from './compression';
import { computeDigest, matchesEtag, computeTag } from './conditional';
import { JSON_TYPE } from './errorResponse';

// Files are compressed once and sent often.
const BROTLI_QUALITY = 9;
const DAY_SECONDS = 86_400;

/** An OpenAPI document or a file of the documentation, as it is sent. */
interface ServedFile {
  readonly contentType: string;
  readonly body: Buffer;
  readonly etag: string;
  readonly cacheControl: string;
  /** The compressed bodies, created on first use. */
  readonly bodyByEncoding: Map<Encoding, Promise<Buffer>>;
}

/**
 * Serves the OpenAPI documents and the documentation pages without authentication. `baseUrl`: the URL at which clients
 * reach this server; empty: the URL of the request. Each file is created on first use. Returns the paths.
 */
export function addDocumentation(app: FastifyInstance, baseUrl: string): readonly string[] {
  const documents = OPENAPI_FILES.map((name) => {
    const getDocument = memoize(() => renderDocument(name, baseUrl));
    app.get(`/${name}`, (request, reply) => sendFile(request, reply, getDocument()));
    return `/${name}`;
  });
  const redirects = ['/', '/docs'];
  for (const path of redirects) app.get(path, (_, reply) => reply.redirect('docs/', 308));
  const files = DOCS_FILES.map((name) => {
    const path = `/docs/${name === 'index.html' ? '' : name}`;
    const getFile = memoize(() => ({
      ...readDocsFile(name),
      cacheControl: name.endsWith('.html') ? 'no-cache' : `public, max-age=${DAY_SECONDS}`,
      bodyByEncoding: new Map(),
    }));
    app.get(path, (request, reply) => sendFile(request, reply.header('content-security-policy', DOCS_CSP), getFile()));
    return path;
  });
  return [...documents, ...redirects, ...files];
}

/** Renders an OpenAPI document for the URL of the server. */
function renderDocument(name: (typeof OPENAPI_FILES)[number], baseUrl: string): ServedFile {
  const body = Buffer.from(renderOpenApiText(name, baseUrl));
  return {
    contentType: JSON_TYPE,
    body,
    etag: computeTag(computeDigest(body), undefined, false),
    cacheControl: 'no-cache',
    bodyByEncoding: new Map(),
  };
}

/** Returns a function that creates the file on its first call. */
function memoize(create: () => ServedFile): () => ServedFile {
  let file: ServedFile | undefined;
  return () => (file ??= create());
}

/**
 * Sends a file, compressed if the client accepts that; 304 if the client already has the file. A compressed file has a
 * weak ETag, because its bytes differ.
 */
async function sendFile(request: FastifyRequest, reply: FastifyReply, file: ServedFile): Promise<FastifyReply> {
  const { contentType, body, etag, cacheControl, bodyByEncoding } = file;
  const encoding = chooseEncoding(request.headers['accept-encoding'], body.length);
  void reply.header('etag', encoding === undefined ? etag : `W/${etag}`).header('cache-control', cacheControl);
  if (matchesEtag(request.headers['if-none-match'], etag)) return await reply.code(304).send();
  void reply.header('content-type', contentType);
  if (encoding === undefined) return await reply.send(body);
  const compressed = bodyByEncoding.get(encoding) ?? compress(body, encoding, BROTLI_QUALITY); // a promise, shared by concurrent requests
  bodyByEncoding.set(encoding, compressed);
  return await reply.header('content-encoding', encoding).send(await compressed);
}
