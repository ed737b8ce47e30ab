import { asset } from '../kernel/assets';
import { CODECS, type Codecs } from './worker/messages';

let shared: Codecs | undefined;

/** The codecs' programs for the threads, read with the first picture: about 2 MB that the threads share, for each of them lives for one picture only. */
export function pictureCodecs(): Codecs {
  return (shared ??= Object.fromEntries(CODECS.map((name) => [name, sharedCopy(asset(`${name}.wasm`))])) as Codecs);
}

function sharedCopy(bytes: Buffer): SharedArrayBuffer {
  const copy = new SharedArrayBuffer(bytes.length);
  new Uint8Array(copy).set(bytes);
  return copy;
}
