// The released protos: one image per version in proto-releases, which is never overwritten.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

export const FOLDER = 'proto-releases';
const NAME = /^(\d+)\.(\d+)\.(\d+)\.binpb$/;

/** Lists the released versions, oldest first: 0.9.0 before 0.10.0. Throws if the folder contains another file. */
export function listReleases() {
  const files = readdirSync(FOLDER);
  const unexpected = files.filter((file) => !NAME.test(file));
  if (unexpected.length > 0)
    throw new Error(
      `${FOLDER} contains files that are not releases (MAJOR.MINOR.PATCH.binpb): ${unexpected.join(', ')}`,
    );
  return files.map((file) => file.slice(0, -'.binpb'.length)).toSorted(compareVersions);
}

/** Returns the image file of a version. */
export function getImageFile(version) {
  return join(FOLDER, `${version}.binpb`);
}

/** Compares two versions; the result is negative if the first one is older. */
export function compareVersions(one, other) {
  const [left, right] = [one, other].map((version) => version.split('.').map(Number));
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/** Whether a text is a valid version. */
export function isVersion(text) {
  return NAME.test(`${text}.binpb`);
}
