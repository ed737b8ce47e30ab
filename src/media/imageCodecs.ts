import { readAsset } from '../kernel/assets';
import { CODECS, type Codecs } from './worker/messages';

let codecs: Codecs | undefined;

/**
 * The codecs' programs, read with the first image: about 2 MB that all threads share, because each thread processes
 * only one image.
 */
export function loadImageCodecs(): Codecs {
  return (codecs ??= Object.fromEntries(
    CODECS.map((name) => [name, copyToSharedBuffer(readAsset(`${name}.wasm`))]),
  ) as Codecs);
}

/** Copies the bytes to memory that several threads can use without another copy. */
function copyToSharedBuffer(bytes: Buffer): SharedArrayBuffer {
  const copy = new SharedArrayBuffer(bytes.length);
  new Uint8Array(copy).set(bytes);
  return copy;
}
