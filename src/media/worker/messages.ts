/** The codecs' programs by name; each is an asset `<name>.wasm`. */
export const CODECS = ['jpegDecoder', 'pngDecoder', 'webpDecoder', 'webpEncoder', 'avifDecoder'] as const;

export type CodecName = (typeof CODECS)[number];

/** Their bytes, which all threads share: in a single binary, threads cannot read asset files. */
export type Codecs = Readonly<Record<CodecName, SharedArrayBuffer>>;

/** The input of a thread. */
export interface WorkerStart {
  /** The file that holds the bytes. */
  readonly file: string;
  readonly codecs: Codecs;
  /** The maximum length of the thumbnail's longer side, in pixels. */
  readonly thumbnailPixels: number;
  /** The memory limit, in bytes. */
  readonly maxMemory: number;
}

/** A supported image and its thumbnail. */
export interface ProcessedImage {
  /** For example `image/png`. */
  readonly contentType: string;
  /** In pixels, as shown. */
  readonly width: number;
  readonly height: number;
  /** The thumbnail as WebP. */
  readonly thumbnail: Uint8Array;
}

/** The single message of a thread: the processed image, or why it is rejected. */
export type WorkerReport = { readonly image: ProcessedImage } | { readonly rejectionReason: string };
