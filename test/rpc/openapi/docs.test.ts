import { createHash } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import { DOCS_CSP, DOCS_FILES, docsFile, openApiText, type DocsFile } from '../../../src/rpc/openapi';

describe('the pages at /docs', () => {
  const files = new Map<string, DocsFile>(DOCS_FILES.map((name) => [name, docsFile(name)]));
  const text = (name: string): string => files.get(name)?.body.toString('utf8') ?? '';

  test('refer to nothing but to themselves and to the document', () => {
    const referred = [...text('index.html').matchAll(/(?:src|href)="([^"]*)"/g)].map(([, address = '']) => address);
    expect(referred.length).toBeGreaterThan(4);
    expect(referred.filter((address) => address !== '../openapi.json' && !files.has(address))).toEqual([]);
    for (const name of ['index.html', 'start.js', 'style.css']) expect(text(name)).not.toMatch(/https?:\/\//);
    expect(text('swagger-ui.css')).not.toMatch(/url\((?!["']?data:)|@import/);
  });

  test('hold no script and no handler in the page, which their policy would refuse', () => {
    expect(text('index.html')).not.toMatch(/<script>|<style|\son[a-z]+=/);
    expect(DOCS_CSP).toContain("default-src 'none'; script-src 'self';");
    expect(DOCS_CSP).not.toMatch(/https?:|unsafe-eval|script-src[^;]*unsafe|\*/);
  });

  test.each([
    ['https://plantroom.local:8443/docs/', 'https://plantroom.local:8443'],
    ['https://intranet.example/plantroom/docs/#/Devices/listDigitalDevices', 'https://intranet.example/plantroom'],
  ])('ask the server where they are opened, at %s, whatever address it has for others', (href, base) => {
    const shown: { url?: string; plugins?: { statePlugins: { spec: { wrapActions: { updateJsonSpec: (update: (document: unknown) => unknown) => (document: unknown) => unknown } } } }[] } = {};
    const SwaggerUIBundle = Object.assign((options: object) => Object.assign(shown, options), { presets: { apis: [] } });
    runInNewContext(text('start.js'), { SwaggerUIBundle, URL, location: new URL(href) });
    expect(shown.url).toBe(`${base}/openapi.json`);
    const document = shown.plugins?.[0]?.statePlugins.spec.wrapActions.updateJsonSpec((one) => one)({ openapi: '3.1.1', servers: [{ url: 'https://elsewhere.example' }] });
    expect(document).toEqual({ openapi: '3.1.1', servers: [{ url: base }] });
  });

  test('come with the licences of what is in them', () => {
    expect(text('LICENSE.txt')).toContain('Apache License');
    expect(text('NOTICE.txt')).toContain('swagger-ui');
    expect(text('THIRD-PARTY.txt')).toContain('MIT');
  });

  test('have a type and a tag that is theirs', () => {
    for (const { contentType, body, etag } of files.values()) {
      expect(contentType).toMatch(/^(?:text\/(?:html|javascript|css|plain); charset=utf-8|image\/png)$/);
      expect(etag).toBe(`"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`);
    }
  });
});

const servers = (baseUrl: string): unknown => (JSON.parse(openApiText(baseUrl)) as { servers: unknown }).servers;

describe('the document that is shown', () => {
  test('names the address at which the server is reached', () => {
    expect(servers('')).toEqual([{ url: '/' }]);
    expect(servers('https://plantroom.example:8443')).toEqual([{ url: 'https://plantroom.example:8443' }]);
  });
});
