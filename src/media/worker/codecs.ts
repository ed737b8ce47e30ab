import avifDecoder from '@jsquash/avif/codec/dec/avif_dec.js';
import jpegDecoder from '@jsquash/jpeg/codec/dec/mozjpeg_dec.js';
import { decode as pngDecode, initSync } from '@jsquash/png/codec/pkg/squoosh_png.js';
import webpDecoder from '@jsquash/webp/codec/dec/webp_dec.js';
import webpEncoder from '@jsquash/webp/codec/enc/webp_enc_simd.js';
import { defaultOptions } from '@jsquash/webp/meta.js';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Pixels } from './pixels';

/** Turns bytes into pixels. Throws for what cannot be decoded. */
export type Decode = (bytes: Buffer) => Pixels;

type Load = () => Promise<Decode>;

/** Makes the decoder of a format ready; its program is read from the file beside the thread's own. */
export const DECODERS: { readonly jpeg: Load; readonly png: Load; readonly webp: Load; readonly avif: Load } = {
  jpeg: async () => {
    const decoder = await jpegDecoder(options('jpegDecoder.wasm'));
    return (bytes) => found(decoder.decode(bytes, false));
  },
  png: async () => {
    initSync(program('pngDecoder.wasm'));
    return (bytes) => found(pngDecode(bytes));
  },
  webp: async () => {
    const decoder = await webpDecoder(options('webpDecoder.wasm'));
    return (bytes) => found(decoder.decode(bytes));
  },
  avif: async () => {
    const decoder = await avifDecoder(options('avifDecoder.wasm'));
    return (bytes) => found(decoder.decode(bytes, 8));
  },
};

/** The picture as WebP, with nothing beside its pixels. */
export async function encodeWebp({ data, width, height }: Pixels): Promise<Uint8Array> {
  const encoder = await webpEncoder(options('webpEncoder.wasm'));
  const encoded = encoder.encode(data, width, height, { ...defaultOptions, quality: QUALITY });
  if (!encoded) throw new Error('the small picture could not be encoded');
  return encoded;
}

const QUALITY = 80;

function program(name: string): WebAssembly.Module {
  return new WebAssembly.Module(new Uint8Array(readFileSync(join(__dirname, name))));
}

function options(name: string) {
  const module = program(name);
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
