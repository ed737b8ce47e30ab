declare module 'omggif' {
  interface GifFrame {
    readonly x: number;
    readonly y: number;
    readonly width: number;
    readonly height: number;
    readonly data_offset: number;
    readonly data_length: number;
  }
  class GifReader {
    constructor(bytes: Uint8Array);
    readonly width: number;
    readonly height: number;
    frameInfo(index: number): GifFrame;
    decodeAndBlitFrameRGBA(index: number, pixels: Uint8Array): void;
  }
}
