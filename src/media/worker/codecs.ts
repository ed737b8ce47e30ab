import avifDecoder from '@jsquash/avif/codec/dec/avif_dec.js';
import jpegDecoder from '@jsquash/jpeg/codec/dec/mozjpeg_dec.js';
import { decode as pngDecode, initSync } from '@jsquash/png/codec/pkg/squoosh_png.js';
import webpDecoder from '@jsquash/webp/codec/dec/webp_dec.js';
import webpEncoder from '@jsquash/webp/codec/enc/webp_enc_simd.js';
import { defaultOptions } from '@jsquash/webp/meta.js';
import { workerData } from 'node:worker_threads';
import { capMemory } from './capMemory';
import type { CodecName, WorkerStart } from './messages';
import type { Pixels } from './pixels';

/** Decodes bytes to pixels. Throws if they cannot be decoded. */
export type Decode = (bytes: Buffer) => Pixels;

/** The orientation in the EXIF data is applied later, to the smaller thumbnail. */
const PRESERVE_ORIENTATION = false;
const BIT_DEPTH = 8;

type LoadDecoder = (maxMemory: number) => Promise<Decode>;

/** Loads the decoder of a format, which uses at most `maxMemory` bytes. */
export const DECODERS: {
  readonly jpeg: LoadDecoder;
  readonly png: LoadDecoder;
  readonly webp: LoadDecoder;
  readonly avif: LoadDecoder;
} = {
  jpeg: async (maxMemory) => {
    const decoder = await jpegDecoder(createModuleOptions('jpegDecoder', maxMemory));
    return (bytes) => assertDecoded(decoder.decode(bytes, PRESERVE_ORIENTATION));
  },
  png: async (maxMemory) => {
    initSync(compileModule('pngDecoder', maxMemory));
    return (bytes) => assertDecoded(pngDecode(bytes));
  },
  webp: async (maxMemory) => {
    const decoder = await webpDecoder(createModuleOptions('webpDecoder', maxMemory));
    return (bytes) => assertDecoded(decoder.decode(bytes));
  },
  avif: async (maxMemory) => {
    const decoder = await avifDecoder(createModuleOptions('avifDecoder', maxMemory));
    return (bytes) => assertDecoded(decoder.decode(bytes, BIT_DEPTH));
  },
};

/** Encodes the image as WebP, without any metadata. */
export async function encodeWebp({ data, width, height }: Pixels, maxMemory: number): Promise<Uint8Array> {
  const encoder = await webpEncoder(createModuleOptions('webpEncoder', maxMemory));
  const encoded = encoder.encode(data, width, height, { ...defaultOptions, quality: THUMBNAIL_QUALITY });
  if (!encoded) throw new Error('the thumbnail could not be encoded');
  return encoded;
}

const THUMBNAIL_QUALITY = 80;

/** Compiles the WASM module of a codec with a memory limit in bytes. */
function compileModule(name: CodecName, maxMemory: number): WebAssembly.Module {
  const { codecs } = workerData as WorkerStart;
  return new WebAssembly.Module(new Uint8Array(capMemory(Buffer.from(codecs[name]), maxMemory)));
}

/**
 * Returns the Emscripten options with which a codec uses our module with its memory limit, instead of loading its own
 * file. Emscripten takes the instance from `onInstantiated` and expects the exports as the result.
 */
function createModuleOptions(name: CodecName, maxMemory: number) {
  const module = compileModule(name, maxMemory);
  return {
    noInitialRun: true,
    instantiateWasm: (imports: WebAssembly.Imports, onInstantiated: (instance: WebAssembly.Instance) => void) => {
      const instance = new WebAssembly.Instance(module, imports);
      onInstantiated(instance);
      return instance.exports;
    },
  };
}

/** The codecs return null for an image that they cannot decode. */
function assertDecoded(pixels: Pixels | null): Pixels {
  if (!pixels) throw new Error('the decoder returned no image');
  return pixels;
}
