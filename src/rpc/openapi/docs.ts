import { createHash } from 'node:crypto';
import { asset } from '../../kernel/assets';

/** One file of the pages at /docs. */
export interface DocsFile {
  readonly contentType: string;
  readonly body: Buffer;
  readonly etag: string;
}

/**
 * Goes with every answer below /docs: nothing from elsewhere, no script in a page. The styles of the page's library stand in its
 * elements, and its icons in its styles.
 */
export const DOCS_CSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES: Readonly<Record<string, string>> = { html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', png: 'image/png', txt: 'text/plain; charset=utf-8' };

/** The names of the pages below /docs/; `index.html` is the page itself. They reach for `/openapi.json` and for nothing else. */
export const DOCS_FILES = ['index.html', 'start.js', 'style.css', 'swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png', 'LICENSE.txt', 'NOTICE.txt', 'THIRD-PARTY.txt'] as const;

export type DocsName = (typeof DOCS_FILES)[number];

/** The page of that name. */
export function docsFile(name: DocsName): DocsFile {
  const body = asset(`docs/${name}`);
  return { contentType: TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream', body, etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"` };
}

/** The OpenAPI document as JSON, for a server that is reached at `baseUrl`; empty: at the address that the document came from. */
export function openApiText(baseUrl: string): string {
  const document = JSON.parse(asset('openapi.json').toString('utf8')) as Record<string, unknown>;
  return JSON.stringify({ ...document, servers: [{ url: baseUrl === '' ? '/' : baseUrl }] });
}
