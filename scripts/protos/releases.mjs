// The released protos: an image for each version in proto-releases, made once and never written over.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

export const FOLDER = 'proto-releases';
const NAME = /^(\d+)\.(\d+)\.(\d+)\.binpb$/;

/** The released versions, oldest first: 0.9.0 before 0.10.0. A file that is no release is an error, since it would be compared with nothing. */
export function releases() {
  const files = readdirSync(FOLDER);
  const strange = files.filter((file) => !NAME.test(file));
  if (strange.length > 0) throw new Error(`${FOLDER} holds what is no release (MAJOR.MINOR.PATCH.binpb): ${strange.join(', ')}`);
  return files.map((file) => file.slice(0, -'.binpb'.length)).toSorted(compareVersions);
}

/** The file of a version. */
export function imageOf(version) {
  return join(FOLDER, `${version}.binpb`);
}

/** Below 0 if the first is older. */
export function compareVersions(one, other) {
  const [left, right] = [one, other].map((version) => version.split('.').map(Number));
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
}

/** Whether it reads as a version of a release. */
export function isVersion(text) {
  return NAME.test(`${text}.binpb`);
}
