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

/** Turns bytes into pixels. Throws for what cannot be decoded. */
export type Decode = (bytes: Buffer) => Pixels;

type Load = (mostMemory: number) => Promise<Decode>;

/** Makes the decoder of a format ready; its program takes no more memory than it is given. */
export const DECODERS: { readonly jpeg: Load; readonly png: Load; readonly webp: Load; readonly avif: Load } = {
  jpeg: async (mostMemory) => {
    const decoder = await jpegDecoder(options('jpegDecoder', mostMemory));
    return (bytes) => found(decoder.decode(bytes, false));
  },
  png: async (mostMemory) => {
    initSync(program('pngDecoder', mostMemory));
    return (bytes) => found(pngDecode(bytes));
  },
  webp: async (mostMemory) => {
    const decoder = await webpDecoder(options('webpDecoder', mostMemory));
    return (bytes) => found(decoder.decode(bytes));
  },
  avif: async (mostMemory) => {
    const decoder = await avifDecoder(options('avifDecoder', mostMemory));
    return (bytes) => found(decoder.decode(bytes, 8));
  },
};

/** The picture as WebP, with nothing beside its pixels. */
export async function encodeWebp({ data, width, height }: Pixels, mostMemory: number): Promise<Uint8Array> {
  const encoder = await webpEncoder(options('webpEncoder', mostMemory));
  const encoded = encoder.encode(data, width, height, { ...defaultOptions, quality: QUALITY });
  if (!encoded) throw new Error('the small picture could not be encoded');
  return encoded;
}

const QUALITY = 80;

function program(name: CodecName, mostMemory: number): WebAssembly.Module {
  const { codecs } = workerData as WorkerStart;
  return new WebAssembly.Module(new Uint8Array(capMemory(Buffer.from(codecs[name]), mostMemory)));
}

function options(name: CodecName, mostMemory: number) {
  const module = program(name, mostMemory);
  return {
    noInitialRun: true,
    instantiateWasm: (imports: WebAssembly.Imports, ready: (instance: WebAssembly.Instance) => void) => {
      const instance = new WebAssembly.Instance(module, imports);
      ready(instance);
      return instance.exports;
    },
  };
}

function found(pixels: Pixels | null): Pixels {
  if (!pixels) throw new Error('the decoder gave nothing');
  return pixels;
}
