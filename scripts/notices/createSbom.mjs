// The software bill of materials: CycloneDX 1.6 in JSON. The same components always give the same bytes.
import { createHash } from 'node:crypto';
import { compareText } from './compareText.mjs';

/** `sha256`: of the binary that the document is about, in hexadecimal. `direct`: names of the packages that Plantroom itself uses. */
export function createSbom(components, { version, sha256, direct }) {
  const root = `pkg:generic/plantroom@${version}`;
  const needed = new Set(components.flatMap(({ dependsOn }) => dependsOn));
  const directPurls = components
    .filter(({ name, purl }) => direct.has(name) || !needed.has(purl))
    .map(({ purl }) => purl);
  const document = {
    metadata: {
      component: {
        type: 'application',
        'bom-ref': root,
        name: 'plantroom',
        version,
        ...(sha256 && { hashes: [{ alg: 'SHA-256', content: sha256 }] }),
        purl: root,
      },
    },
    components: components.map(describeComponent),
    dependencies: [
      { ref: root, dependsOn: directPurls },
      ...components.map(({ purl, dependsOn }) => ({ ref: purl, ...(dependsOn.length > 0 && { dependsOn }) })),
    ].toSorted((a, b) => compareText(a.ref, b.ref)),
  };
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: deriveSerialNumber(document),
    version: 1,
    ...document,
  };
}

function describeComponent({ name, version, license, purl, cpe, integrity }) {
  const [, group, plainName] = /^@([^/]+)\/(.+)$/.exec(name) ?? [undefined, undefined, name];
  return {
    type: name === 'Node.js' ? 'platform' : 'library',
    'bom-ref': purl,
    ...(group && { group: `@${group}` }),
    name: plainName,
    version,
    ...(integrity && { hashes: [describeHash(integrity)] }),
    licenses: [/\s/.test(license) ? { expression: license } : { license: { id: license } }],
    ...(cpe && { cpe }),
    purl,
  };
}

/** `sha512-<base64>` of the lock file. */
function describeHash(integrity) {
  const [, bits, content] = /^sha(\d+)-(\S+)/.exec(integrity);
  return { alg: `SHA-${bits}`, content: Buffer.from(content, 'base64').toString('hex') };
}

/** A UUID of version 8 (RFC 9562), made from the contents. */
function deriveSerialNumber(document) {
  const hash = createHash('sha256').update(JSON.stringify(document)).digest('hex');
  return `urn:uuid:${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-a${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
}
