import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DOCS_CSP, DOCS_FILES, docsFile, openApiText } from '../openapi';
import { compressed, encodingFor, type Encoding } from './compression';
import { digestOf, knows, tagOf } from './conditional';
import { JSON_TYPE } from './errorAnswer';

// What is compressed once and sent often is worth the effort.
const BEST_BROTLI = 9;
const DAY_S = 86_400;

interface Page {
  readonly contentType: string;
  readonly body: Buffer;
  readonly etag: string;
  readonly cacheControl: string;
  /** What was sent compressed before. */
  readonly encoded: Map<Encoding, Promise<Buffer>>;
}

/**
 * Shows the OpenAPI document and the pages that make it readable, to everybody. `baseUrl`: how clients reach this server; empty: as they did.
 * Each is made when it is asked for the first time. Gives the paths.
 */
export function addPages(app: FastifyInstance, baseUrl: string): readonly string[] {
  const document = once(() => documentOf(baseUrl));
  app.get('/openapi.json', (request, reply) => send(request, reply, document()));
  const moved = ['/', '/docs'];
  for (const path of moved) app.get(path, (_, reply) => reply.redirect('docs/', 308));
  const files = DOCS_FILES.map((name) => {
    const path = `/docs/${name === 'index.html' ? '' : name}`;
    const page = once(() => ({ ...docsFile(name), cacheControl: name.endsWith('.html') ? 'no-cache' : `public, max-age=${DAY_S}`, encoded: new Map() }));
    app.get(path, (request, reply) => send(request, reply.header('content-security-policy', DOCS_CSP), page()));
    return path;
  });
  return ['/openapi.json', ...moved, ...files];
}

function documentOf(baseUrl: string): Page {
  const body = Buffer.from(openApiText(baseUrl));
  return { contentType: JSON_TYPE, body, etag: tagOf(digestOf(body), undefined, false), cacheControl: 'no-cache', encoded: new Map() };
}

function once(make: () => Page): () => Page {
  let made: Page | undefined;
  return () => (made ??= make());
}

async function send(request: FastifyRequest, reply: FastifyReply, page: Page): Promise<FastifyReply> {
  const { contentType, body, etag, cacheControl, encoded } = page;
  const encoding = encodingFor(request.headers['accept-encoding'], body.length);
  void reply.header('etag', encoding === undefined ? etag : `W/${etag}`).header('cache-control', cacheControl);
  if (knows(request.headers['if-none-match'], etag)) return await reply.code(304).send();
  void reply.header('content-type', contentType);
  if (encoding === undefined) return await reply.send(body);
  const bytes = encoded.get(encoding) ?? compressed(body, encoding, BEST_BROTLI);
  encoded.set(encoding, bytes);
  return await reply.header('content-encoding', encoding).send(await bytes);
}
