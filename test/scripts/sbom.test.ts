import { readFileSync } from 'node:fs';
import { dependencies, version } from '../../package.json';

interface Component {
  readonly type: string;
  readonly 'bom-ref': string;
  readonly group?: string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses: readonly { readonly license?: { readonly id: string }; readonly expression?: string }[];
}

interface Sbom {
  readonly serialNumber: string;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[];
}

const readJson = <T>(file: string): T => JSON.parse(readFileSync(file, 'utf8')) as T;

describe('dist/sbom.cdx.json', () => {
  const sbom = readJson<Sbom>('dist/sbom.cdx.json');
  const purls = sbom.components.map(({ purl }) => purl);

  it('is a CycloneDX 1.6 document about this version, without timestamps or random numbers', () => {
    expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6', version: 1 });
    expect(sbom.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(sbom.metadata).toEqual({
      component: expect.objectContaining({ type: 'application', name: 'plantroom', version }) as object,
    });
  });

  it('contains every bundled package with its version, license and hash', () => {
    const lock = readJson<{ packages: Record<string, { version: string; integrity: string }> }>('package-lock.json');
    const bundled = readJson<string[]>('dist/bundled-packages.json');
    expect(bundled).toEqual(expect.arrayContaining(Object.keys(dependencies).map((name) => `node_modules/${name}`)));
    for (const folder of bundled) {
      const name = folder.split('node_modules/').at(-1) as string;
      const purl = `pkg:npm/${name.replace('@', '%40')}@${lock.packages[folder]?.version}`;
      const component = sbom.components.find((entry) => entry.purl === purl);
      expect([folder, component]).toEqual([
        folder,
        expect.objectContaining({
          version: lock.packages[folder]?.version,
          hashes: [{ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) as string }],
        }),
      ]);
      const hash = component?.hashes?.[0]?.content ?? '';
      expect(`sha512-${Buffer.from(hash, 'hex').toString('base64')}`).toBe(lock.packages[folder]?.integrity);
    }
  });

  it('contains each component once, sorted, with one license', () => {
    expect(new Set(purls).size).toBe(purls.length);
    expect(new Set(sbom.components.map((component) => component['bom-ref']))).toEqual(new Set(purls));
    for (const { name, licenses } of sbom.components)
      expect([name, licenses.length, licenses[0]?.expression ?? licenses[0]?.license?.id]).toEqual([
        name,
        1,
        expect.stringMatching(/^\S/),
      ]);
    const names = sbom.components.map(({ group, name }) => (group ? `${group}/${name}` : name));
    expect(names).toEqual(names.toSorted((a, b) => (a < b ? -1 : Number(a > b))));
  });

  it('connects every component to Plantroom', () => {
    const edges = new Map(sbom.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn ?? []]));
    const reached = new Set<string>();
    const pending = [sbom.metadata.component['bom-ref']];
    for (let ref = pending.pop(); ref !== undefined; ref = pending.pop()) {
      if (reached.has(ref)) continue;
      reached.add(ref);
      pending.push(...(edges.get(ref) ?? [ref]));
    }
    reached.delete(sbom.metadata.component['bom-ref']);
    expect([...reached].toSorted()).toEqual(purls.toSorted());
    expect(edges.get(purls.find((purl) => purl.includes('better-sqlite3')) as string)).toContainEqual(
      expect.stringMatching(/^pkg:generic\/sqlite@3\./),
    );
  });
});
