import { crc32, deflateSync } from 'node:zlib';

// Images of 24 x 16 pixels, created by the encoders of @jsquash. The WebP has transparency.
export const JPEG = Buffer.from(
  '/9j/4AAQSkZJRgABAQAAAQABAAD/2wEEEAANAA0ADQANAA4ADQAOABAAEAAOABQAFgATABYAFAAeABsAGQAZABsAHgAtACAAIgAgACIAIAAtAEQAKgAyACoAKgAyACoARAA8AEkAOwA3ADsASQA8AGwAVQBLAEsAVQBsAH0AaQBjAGkAfQCXAIcAhwCXAL4AtQC+APkA+QFOEQANAA0ADQANAA4ADQAOABAAEAAOABQAFgATABYAFAAeABsAGQAZABsAHgAtACAAIgAgACIAIAAtAEQAKgAyACoAKgAyACoARAA8AEkAOwA3ADsASQA8AGwAVQBLAEsAVQBsAH0AaQBjAGkAfQCXAIcAhwCXAL4AtQC+APkA+QFO/8IAEQgAEAAYAwEiAAIRAQMRAf/EACsAAAMBAAAAAAAAAAAAAAAAAAAFBgQBAQEBAAAAAAAAAAAAAAAAAAQCBv/aAAwDAQACEAMQAAAAjW1JqsacogGt/8QAGxAAAgMAAwAAAAAAAAAAAAAAAAQDIWEBMTL/2gAIAQEAAT8AjSwVS7ojSwjSw5S80RpYf//EACARAAEDAgcAAAAAAAAAAAAAABEAAhIDIQYTFCQzQqL/2gAIAQIBAT8Aqv0O5zZw6gE2TsTX4fa//8QAHBEAAQMFAAAAAAAAAAAAAAAAAAEEEQMFEiIj/9oACAEDAQE/AGF1yhJKD/mm5//Z',
  'base64',
);
export const WEBP = Buffer.from(
  'UklGRqgAAABXRUJQVlA4WAoAAAAQAAAAFwAADwAAQUxQSBQAAAABDzD/ERFCSED4v9YD3YKI/gc2A1ZQOCBuAAAAUAQAnQEqGAAQAD6RRJpIpaQioTAIALASCWwAnTKEcDegASzFFdN8CfNsAAD+/0jZ8qPQq3/s3KP7Rl+WeVuzVbYD8gQ/9rjk/2N/zgM7/+DQsX9zQlg5t2t7p6t/tSm/QPA2kCgkAq/FPBZ4AAA=',
  'base64',
);
export const AVIF = Buffer.from(
  'AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUIAAADybWV0YQAAAAAAAAAoaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAGxpYmF2aWYAAAAADnBpdG0AAAAAAAEAAAAeaWxvYwAAAABEAAABAAEAAAABAAABGgAAAE4AAAAoaWluZgAAAAAAAQAAABppbmZlAgAAAAABAABhdjAxQ29sb3IAAAAAamlwcnAAAABLaXBjbwAAABRpc3BlAAAAAAAAABgAAAAQAAAAEHBpeGkAAAAAAwgICAAAAAxhdjFDgQAMAAAAABNjb2xybmNseAACAAIABoAAAAAXaXBtYQAAAAAAAAABAAEEAQKDBAAAAFZtZGF0EgAKCRgQ7+wQICBoQDI/GAAKKKKEANjWM8Va7jt6ODdHTOTSTsVY0E5VnR7sPArD0NEENAOp62cuxP6TAiAU7LsJBCw4blcZnUCjWJ3g',
  'base64',
);

/** A pixel of a generated image: red, green, blue, alpha. */
export type Colour = readonly [number, number, number, number];

/** Creates a PNG with eight bits per channel. */
export function png(width: number, height: number, colour: (x: number, y: number) => Colour): Buffer {
  const rows = Array.from({ length: height }, (_, y) =>
    Buffer.from([0, ...Array.from({ length: width }, (__, x) => colour(x, y)).flat()]),
  );
  return getPng(width, height, deflateSync(Buffer.concat(rows)));
}

/** Creates a PNG whose header declares a size, whatever its data holds. */
export function getPng(width: number, height: number, data: Buffer): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 6, 0, 0, 0], 8);
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    pngChunk('IHDR', header),
    pngChunk('IDAT', data),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Creates a PNG of one colour that is unique in the test, so that its content has a unique name. */
export function createOnePixelPng(number: number): Buffer {
  return png(1, 1, () => [number % 256, Math.floor(number / 256) % 256, 0, 255]);
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  return Buffer.concat([number32(data.length), body, number32(crc32(body))]);
}

function number32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/**
 * Creates a GIF of one or more frames of one colour each. The codes are uncompressed, nine bits each, and cleared
 * before the table grows.
 */
export function gif(
  width: number,
  height: number,
  frames: readonly {
    readonly x: number;
    readonly y: number;
    readonly width: number;
    readonly height: number;
    readonly colour: number;
  }[],
): Buffer {
  const header = Buffer.from([...Buffer.from('GIF89a'), ...number16(width), ...number16(height), 0xf7, 0, 0]);
  const palette = Buffer.from(Array.from({ length: 256 }, (_, index) => [index, 255 - index, 0]).flat());
  const images = frames.map((frame) =>
    Buffer.concat([
      Buffer.from([0x2c, ...[frame.x, frame.y, frame.width, frame.height].flatMap(number16), 0, 8]),
      splitIntoBlocks(plainCodes(frame.width * frame.height, frame.colour)),
      Buffer.from([0]),
    ]),
  );
  return Buffer.concat([header, palette, ...images, Buffer.from([0x3b])]);
}

const number16 = (value: number): number[] => [value % 256, Math.floor(value / 256)];

function plainCodes(pixels: number, colour: number): Buffer {
  const [clear, end] = [256, 257];
  const codes = Array.from({ length: pixels }, (_, index) => (index % 128 === 0 ? [clear, colour] : [colour])).flat();
  const bytes = Buffer.alloc(Math.ceil(((codes.length + 1) * 9) / 8));
  [...codes, end].forEach((code, index) => {
    const at = index * 9; // the lowest bit first, across bytes
    const bits = bytes.readUInt8(at >> 3) | (code << (at & 7));
    bytes[at >> 3] = bits & 0xff;
    if ((at >> 3) + 1 < bytes.length) bytes[(at >> 3) + 1] = bits >> 8;
  });
  return bytes;
}

function splitIntoBlocks(data: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += 255)
    parts.push(Buffer.from([Math.min(255, data.length - at)]), data.subarray(at, at + 255));
  return Buffer.concat(parts);
}

/** Returns the JPEG with an EXIF orientation. */
export function createRotatedJpeg(orientation: number): Buffer {
  const exif = Buffer.from(`4578696600004d4d002a0000000800010112000300000001000${orientation}000000000000`, 'hex');
  const head = Buffer.from([0xff, 0xe1, 0, exif.length + 2]);
  return Buffer.concat([JPEG.subarray(0, 2), head, exif, JPEG.subarray(2)]);
}

/** Returns the JPEG with filling bytes before its markers, as the standard allows. */
export function createPaddedJpeg(): Buffer {
  const [start, first] = [JPEG.subarray(0, 2), JPEG.subarray(2)];
  return Buffer.concat([start, Buffer.from([0xff, 0xff, 0xff]), first]);
}

/** Returns the JPEG with its last pass repeated, so that it has this number of passes. */
export function createMultiPassJpeg(passes: number): Buffer {
  const last = JPEG.lastIndexOf(Buffer.from([0xff, 0xda]));
  const scans = JPEG.toString('latin1').split('\u00ff\u00da').length - 1;
  return Buffer.concat([
    JPEG.subarray(0, -2),
    ...Array.from({ length: passes - scans }, () => JPEG.subarray(last, -2)),
    JPEG.subarray(-2),
  ]);
}

/** Returns the AVIF with another container brand. `meta` is the name of the box that describes its still image. */
export function createBrandedAvif(brand: string, meta = 'meta'): Buffer {
  const copy = Buffer.from(AVIF);
  copy.write(brand, 8, 'latin1');
  copy.write(meta, copy.indexOf('meta'), 'latin1');
  return copy;
}

/** Returns the AVIF with additional properties: `irot` with the number of quarter turns, `imir` with the axis. */
export function createTransformedAvif(
  ...properties: readonly (readonly [type: 'irot' | 'imir', value: number])[]
): Buffer {
  const added = Buffer.concat(
    properties.map(([type, value]) => Buffer.concat([number32(9), Buffer.from(type), Buffer.from([value])])),
  );
  const associations = Buffer.from(properties.map((_, index) => 0x80 | (5 + index)));
  const list = AVIF.indexOf('ipma') - 4;
  const end = list + AVIF.readUInt32BE(list);
  const bytes = Buffer.concat([
    AVIF.subarray(0, list),
    added,
    AVIF.subarray(list, end),
    associations,
    AVIF.subarray(end),
  ]);
  const more = added.length + associations.length;
  for (const [name, by] of [
    ['meta', more],
    ['iprp', more],
    ['ipco', added.length],
    ['ipma', associations.length],
  ] as const)
    growBox(bytes, bytes.indexOf(name) - 4, by);
  bytes.writeUInt8(bytes.readUInt8(bytes.indexOf('ipma') + 14) + properties.length, bytes.indexOf('ipma') + 14);
  growBox(bytes, bytes.indexOf('iloc') + 18, more); // where the data begins
  return bytes;
}

function growBox(bytes: Buffer, at: number, by: number): void {
  bytes.writeUInt32BE(bytes.readUInt32BE(at) + by, at);
}

/** Creates an animated WebP: the frame of the still one on a larger canvas. */
export function createAnimatedWebp(width: number, height: number, x: number, y: number): Buffer {
  const frame = Buffer.concat([
    number24(x / 2),
    number24(y / 2),
    number24(23),
    number24(15),
    number24(100),
    Buffer.from([0]),
    getStillFrame(),
  ]);
  const canvas = Buffer.concat([Buffer.from([0x12, 0, 0, 0]), number24(width - 1), number24(height - 1)]);
  return riff(
    Buffer.concat([
      Buffer.from('WEBP'),
      webpChunk('VP8X', canvas),
      webpChunk('ANIM', Buffer.alloc(6)),
      webpChunk('ANMF', frame),
      webpChunk('ANMF', frame),
    ]),
  );
}

/** Returns the chunks of the still WebP that form its image. */
function getStillFrame(): Buffer {
  const extended = WEBP.toString('latin1', 12, 16) === 'VP8X';
  return WEBP.subarray(extended ? 30 : 12);
}

function webpChunk(type: string, data: Buffer): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32LE(data.length);
  return Buffer.concat([Buffer.from(type), size, data, Buffer.alloc(data.length % 2)]);
}

const riff = (data: Buffer): Buffer => webpChunk('RIFF', data);

function number24(value: number): Buffer {
  const bytes = Buffer.alloc(3);
  bytes.writeUIntLE(value, 0, 3);
  return bytes;
}
