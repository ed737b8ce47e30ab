// Records which npm packages the build puts into the program, by the folder in node_modules.
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { compareText } from './compareText.mjs';

/** The list that the build writes: folders of packages, sorted. */
export const BUNDLED_PACKAGES_FILE = 'dist/bundled-packages.json';

export class BundledPackages {
  #folders = new Set();

  /** Adds every package that contributes code to an output of esbuild. The build needs `metafile: true`. */
  addBuild({ metafile }) {
    for (const { inputs } of Object.values(metafile.outputs))
      for (const [path, { bytesInOutput }] of Object.entries(inputs)) if (bytesInOutput > 0) this.addFile(path);
  }

  /** Adds the package that a file belongs to. Files outside node_modules are our own. */
  addFile(path) {
    const folder = findPackageFolder(path);
    if (folder !== undefined) this.#folders.add(folder);
  }

  /** Copies a file of a package into the program. */
  copyFile(from, to) {
    this.addFile(from);
    copyFileSync(from, to);
  }

  save() {
    writeFileSync(BUNDLED_PACKAGES_FILE, `${JSON.stringify([...this.#folders].toSorted(compareText), undefined, 2)}\n`);
  }
}

/** Reads the list. Throws if the program is not built. */
export function readBundledPackages() {
  if (!existsSync(BUNDLED_PACKAGES_FILE))
    throw new Error(`${BUNDLED_PACKAGES_FILE} is missing. Build the program first: npm run build`);
  return JSON.parse(readFileSync(BUNDLED_PACKAGES_FILE, 'utf8'));
}

/** `node_modules/a/node_modules/@b/c/lib/d.js` is in `node_modules/a/node_modules/@b/c`. */
function findPackageFolder(path) {
  const start = path.indexOf('node_modules/');
  return start === -1 ? undefined : /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path.slice(start))?.[0];
}
