// Prints the newest released version.
import { listReleases } from './releases.mjs';

const newest = listReleases().at(-1);
if (!newest) throw new Error('there is no release: proto-releases is empty');
console.log(newest);
