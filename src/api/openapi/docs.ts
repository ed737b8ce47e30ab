import { createHash } from 'node:crypto';
import { readAsset } from '../../kernel/assets';

/** A file of the documentation pages at /docs. */
export interface DocsFile {
  readonly contentType: string;
  readonly body: Buffer;
  readonly etag: string;
}

/**
 * The Content-Security-Policy of every response below /docs: no external resources and no inline scripts. Inline styles
 * and data images are allowed, because Swagger UI needs them.
 */
export const DOCS_CSP =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPE_BY_EXTENSION: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  png: 'image/png',
  txt: 'text/plain; charset=utf-8',
};

/** The files below /docs/; `index.html` is the page itself. They load nothing else but the OpenAPI documents. */
export const DOCS_FILES = [
  'index.html',
  'start.js',
  'style.css',
  'swagger-ui.css',
  'swagger-ui-bundle.js',
  'favicon-32x32.png',
  'LICENSE.txt',
  'NOTICE.txt',
  'THIRD-PARTY.txt',
] as const;

export type DocsName = (typeof DOCS_FILES)[number];

/** Reads a file of the documentation pages. */
export function readDocsFile(name: DocsName): DocsFile {
  const body = readAsset(`docs/${name}`);
  return {
    contentType: TYPE_BY_EXTENSION[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream',
    body,
    etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`,
  };
}

/** The OpenAPI documents: of the REST routes, and of the gRPC paths. */
export const OPENAPI_FILES = ['openapi.json', 'openapi-grpc.json'] as const;

/** The servers of the documents as the build writes them: the URL from which the document was loaded. */
const BUILT_SERVERS = '"servers":[{"url":"/"}]';

/**
 * Returns the text of an OpenAPI document for a server at `baseUrl`; empty: at the URL from which the document was
 * loaded.
 */
export function renderOpenApiText(name: (typeof OPENAPI_FILES)[number], baseUrl: string): string {
  const text = readAsset(name).toString('utf8');
  return baseUrl === '' ? text : text.replace(BUILT_SERVERS, () => `"servers":${JSON.stringify([{ url: baseUrl }])}`);
}
