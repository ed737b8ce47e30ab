// Writes THIRD_PARTY_NOTICES.txt and the software bill of materials of a build.
import { readFileSync, writeFileSync } from 'node:fs';
import { listComponents } from './components.mjs';
import { createSbom } from './createSbom.mjs';
import { formatNotices } from './formatNotices.mjs';

export const NOTICES = 'THIRD_PARTY_NOTICES.txt';

const readManifest = () => JSON.parse(readFileSync('package.json', 'utf8'));

/** Writes the notices. `node` as `listComponents` takes it. */
export function writeNotices(file, node) {
  writeFileSync(file, formatNotices(listComponents(node), readManifest().version));
}

/** Writes the bill of materials. `sha256`: of the binary that it describes. */
export function writeSbom(file, node, sha256) {
  const { version, dependencies, devDependencies } = readManifest();
  const direct = new Set(Object.keys({ ...dependencies, ...devDependencies })); // the sandbox and /docs contain packages for development
  const sbom = createSbom(listComponents(node), { version, sha256, direct });
  writeFileSync(file, `${JSON.stringify(sbom, undefined, 2)}\n`);
}
