import { createHash } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import {
  DOCS_CSP,
  DOCS_FILES,
  readDocsFile,
  OPENAPI_FILES,
  renderOpenApiText,
  type DocsFile,
} from '../../../src/api/openapi/docs';

describe('the pages at /docs', () => {
  const files = new Map<string, DocsFile>(DOCS_FILES.map((name) => [name, readDocsFile(name)]));
  const text = (name: string): string => files.get(name)?.body.toString('utf8') ?? '';

  test('refer only to themselves and to the document', () => {
    const referred = [...text('index.html').matchAll(/(?:src|href)="([^"]*)"/g)].map(([, address = '']) => address);
    expect(referred.length).toBeGreaterThan(4);
    const documents = ['../openapi.json', '../openapi-grpc.json', './', './?grpc'];
    expect(referred.filter((address) => !documents.includes(address) && !files.has(address))).toEqual([]);
    for (const name of ['index.html', 'start.js', 'style.css']) expect(text(name)).not.toMatch(/https?:\/\//);
    expect(text('swagger-ui.css')).not.toMatch(/url\((?!["']?data:)|@import/);
  });

  test('contain no inline script or handler, which their policy would block', () => {
    expect(text('index.html')).not.toMatch(/<script>|<style|\son[a-z]+=/);
    expect(DOCS_CSP).toContain("default-src 'none'; script-src 'self';");
    expect(DOCS_CSP).not.toMatch(/https?:|unsafe-eval|script-src[^;]*unsafe|\*/);
  });

  test.each([
    ['https://plantroom.local:8443/docs/', 'https://plantroom.local:8443', 'openapi.json'],
    ['https://plantroom.local:8443/docs/?grpc', 'https://plantroom.local:8443', 'openapi-grpc.json'],
    [
      'https://intranet.example/plantroom/docs/#/Devices/listDigitalDevices',
      'https://intranet.example/plantroom',
      'openapi.json',
    ],
  ])(
    'send requests to the server they were opened from, at %s, regardless of its public address',
    (href, base, name) => {
      const shown: {
        url?: string;
        plugins?: {
          statePlugins: {
            spec: {
              wrapActions: {
                updateJsonSpec: (update: (document: unknown) => unknown) => (document: unknown) => unknown;
              };
            };
          };
        }[];
      } = {};
      const SwaggerUIBundle = Object.assign((options: object) => Object.assign(shown, options), {
        presets: { apis: [] },
      });
      runInNewContext(text('start.js'), { SwaggerUIBundle, URL, location: new URL(href) });
      expect(shown.url).toBe(`${base}/${name}`);
      const document = shown.plugins?.[0]?.statePlugins.spec.wrapActions.updateJsonSpec((one) => one)({
        openapi: '3.1.1',
        servers: [{ url: 'https://elsewhere.example' }],
      });
      expect(document).toEqual({ openapi: '3.1.1', servers: [{ url: base }] });
    },
  );

  test('include the licences of their components', () => {
    expect(text('LICENSE.txt')).toContain('Apache License');
    expect(text('NOTICE.txt')).toContain('swagger-ui');
    expect(text('THIRD-PARTY.txt')).toContain('MIT');
  });

  test('have the right content type and an etag', () => {
    for (const { contentType, body, etag } of files.values()) {
      expect(contentType).toMatch(/^(?:text\/(?:html|javascript|css|plain); charset=utf-8|image\/png)$/);
      expect(etag).toBe(`"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`);
    }
  });
});

const servers = (baseUrl: string): unknown[] =>
  OPENAPI_FILES.map((name) => (JSON.parse(renderOpenApiText(name, baseUrl)) as { servers: unknown }).servers);

describe('the served document', () => {
  test('names the address at which the server is reached', () => {
    expect(servers('')).toEqual([[{ url: '/' }], [{ url: '/' }]]);
    expect(servers('https://plantroom.example:8443')).toEqual([
      [{ url: 'https://plantroom.example:8443' }],
      [{ url: 'https://plantroom.example:8443' }],
    ]);
  });
});
