// Prints the newest released version.
import { releases } from './releases.mjs';

const newest = releases().at(-1);
if (!newest) throw new Error('no version was released: proto-releases is empty');
console.log(newest);
