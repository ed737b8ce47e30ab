/** The codecs' programs by their names; each is an asset `<name>.wasm`. */
export const CODECS = ['jpegDecoder', 'pngDecoder', 'webpDecoder', 'webpEncoder', 'avifDecoder'] as const;

export type CodecName = (typeof CODECS)[number];

/** Their bytes, which all threads share: a thread has no file beside it where the program is a single binary. */
export type Codecs = Readonly<Record<CodecName, SharedArrayBuffer>>;

/** What a thread is to look at. */
export interface WorkerStart {
  /** The file that holds the bytes. */
  readonly file: string;
  readonly codecs: Codecs;
  /** The longer side of the small picture at most, in pixels. */
  readonly thumbnailPixels: number;
  /** How much memory it may take, in bytes. */
  readonly mostMemory: number;
}

/** What the bytes are. */
export interface Picture {
  /** For example `image/png`. */
  readonly contentType: string;
  /** In pixels, as it is shown. */
  readonly width: number;
  readonly height: number;
  /** The small picture as WebP. */
  readonly thumbnail: Uint8Array;
}

/** What a thread says, once: what the picture is, or what is wrong with it. */
export type Report = { readonly picture: Picture } | { readonly refused: string };
