// The third-party components that Plantroom ships: npm packages, the libraries inside them, and Node.js.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readBundledPackages } from './bundledPackages.mjs';
import { compareText } from './compareText.mjs';
import { listEmbeddedLibraries } from './embeddedLibraries.mjs';
import { readLicenseTexts } from './licenseTexts.mjs';

const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));

/**
 * Returns the components, sorted by name and version, each once:
 * `{name, version, license, purl, texts, integrity?, cpe?, dependsOn}` with the purls of what it needs.
 * `node`: the platform of the Node.js that is shipped and its license file; undefined if none is shipped.
 */
export function listComponents(node) {
  const lock = readJson('package-lock.json').packages;
  const packages = readBundledPackages().map((folder) => readPackage(folder, lock));
  const purls = new Map(packages.map(({ folder, purl }) => [folder, purl]));
  const found = packages.flatMap((one) => {
    const embedded = listEmbeddedLibraries(one);
    const needed = one.dependencies.map((name) => purls.get(resolveFolder(name, one.folder, purls))).filter(Boolean);
    return [
      { ...one, dependsOn: [...needed, ...embedded.map(({ purl }) => purl)] },
      ...embedded.map((library) => ({ ...library, dependsOn: [] })),
    ];
  });
  if (node) found.push(describeNode(node, lock));
  const byPurl = new Map();
  for (const component of found) byPurl.set(component.purl, mergeSame(byPurl.get(component.purl), component));
  return [...byPurl.values()].toSorted((a, b) => compareText(a.name, b.name) || compareText(a.version, b.version));
}

function readPackage(folder, lock) {
  const { name, version, license, ...manifest } = readJson(join(folder, 'package.json'));
  return {
    folder,
    name,
    version,
    license: trimBrackets(license),
    purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
    integrity: lock[folder]?.integrity,
    texts: readLicenseTexts(name, folder),
    dependencies: Object.keys({
      ...manifest.dependencies,
      ...manifest.optionalDependencies,
      ...manifest.peerDependencies,
    }),
  };
}

function describeNode({ platform, licenseFile }, lock) {
  const { version, integrity } = lock[`node_modules/node-${platform}`];
  return {
    name: 'Node.js',
    version,
    license: 'MIT',
    purl: `pkg:npm/node-${platform}@${version}`,
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    integrity,
    texts: [readFileSync(licenseFile, 'utf8')], // covers the libraries that Node.js bundles
    dependsOn: [],
  };
}

/** The folder where a package finds its dependency, as Node.js searches for it. */
function resolveFolder(name, from, folders) {
  for (let folder = from; folder !== '.'; folder = dirname(folder)) {
    const candidate = `${folder}/node_modules/${name}`;
    if (folders.has(candidate)) return candidate;
  }
  return `node_modules/${name}`;
}

/** One version of a package may be installed in two folders. */
const mergeSame = (known, component) => ({
  ...component,
  dependsOn: [...new Set([...(known?.dependsOn ?? []), ...component.dependsOn])].toSorted(compareText),
});

const trimBrackets = (license) => (/^\([^()]*\)$/.test(license) ? license.slice(1, -1) : license);

/** The Node.js of the lock file for this machine; undefined if npm has none for it. */
export function findInstalledNode() {
  const platform = `${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const licenseFile = `node_modules/node-${platform}/LICENSE`;
  return existsSync(licenseFile) ? { platform, licenseFile } : undefined;
}
