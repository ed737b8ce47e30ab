// Checks the licenses of all production packages in the lock file and of everything that the build bundles. Lint runs
// it in the folder of the project.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readBundledPackages } from './bundledPackages.mjs';
import { compareText } from './compareText.mjs';
import { listEmbeddedLibraries } from './embeddedLibraries.mjs';
import { ALLOWED_LICENSES, findLicenseViolation } from './licenses.mjs';

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));

function listLockedPackages() {
  return Object.entries(readJson('package-lock.json').packages)
    .filter(([folder, { dev, link }]) => folder !== '' && !dev && !link)
    .map(([folder, { version, license }]) => ({ name: folder.split('node_modules/').at(-1), version, license }));
}

function listBundled() {
  return readBundledPackages().flatMap((folder) => {
    const { name, version, license } = readJson(join(folder, 'package.json'));
    return [{ name, version, license }, ...listEmbeddedLibraries({ name, version, folder })];
  });
}

const violations = new Set();
for (const component of [...listLockedPackages(), ...listBundled()]) {
  const violation = findLicenseViolation(component);
  if (violation) violations.add(`${component.name} ${component.version}: ${violation}`);
}
for (const line of [...violations].toSorted(compareText)) console.error(line);
if (violations.size > 0) {
  console.error(
    `Use a package with one of these licenses: ${[...ALLOWED_LICENSES].join(', ')}. If that is not possible, add an exception with its reason to scripts/notices/licenses.mjs`,
  );
  process.exit(1);
}
