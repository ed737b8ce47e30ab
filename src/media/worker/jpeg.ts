import { exifOrientation } from './exif';
import type { Orientation } from './pixels';

/** What the markers of a JPEG tell. */
export interface JpegFrame {
  readonly width: number;
  readonly height: number;
  /** Of colour; four: CMYK. */
  readonly channels: number;
  /** All of it comes in one pass, top to bottom, so that a decoder need not hold it in full precision. */
  readonly isOnePass: boolean;
  /** In how many passes it comes. */
  readonly scans: number;
  readonly orientation: Orientation;
  /** Its end is there; decoders make up what is missing, and do not say so. */
  readonly isWhole: boolean;
}

const [TEMPORARY, FIRST_RESTART, START, END, SCAN, EXIF] = [0x01, 0xd0, 0xd8, 0xd9, 0xda, 0xe1];
const SEQUENTIAL = new Set([0xc0, 0xc1]);
/** Within the numbers of frames, but none. */
const NO_FRAMES = new Set([0xc4, 0xc8, 0xcc]);

/** Whether bytes begin as a JPEG does. */
export function isJpeg(bytes: Buffer): boolean {
  return bytes.length >= 3 && bytes.readUIntBE(0, 3) === 0xff_d8_ff;
}

/** Walks from marker to marker as decoders do; undefined for one without a frame. */
export function readJpeg(bytes: Buffer): JpegFrame | undefined {
  let frame: FrameHead | undefined;
  let orientation: Orientation | undefined;
  let firstScanChannels: number | undefined;
  let scans = 0;
  let isWhole = false;
  for (const { marker, at } of segments(bytes)) {
    isWhole = marker === END;
    if (isWhole) break;
    if (marker === SCAN) {
      scans += 1;
      firstScanChannels ??= bytes[at + 2];
    }
    orientation ??= orientationAt(bytes, marker, at);
    frame ??= frameAt(bytes, marker, at);
  }
  return frame && { ...frame, isOnePass: isOnePass(frame, firstScanChannels), scans, orientation: orientation ?? 1, isWhole };
}

/** A first pass without all colours means that there are more. */
const isOnePass = ({ isSequential, channels }: FrameHead, firstScanChannels = 0): boolean => isSequential && firstScanChannels >= channels;

type FrameHead = Pick<JpegFrame, 'width' | 'height' | 'channels'> & { readonly isSequential: boolean };

function orientationAt(bytes: Buffer, marker: number, at: number): Orientation | undefined {
  return marker === EXIF ? exifOrientation(bytes.subarray(at + 2, at + lengthAt(bytes, at))) : undefined;
}

function frameAt(bytes: Buffer, marker: number, at: number): FrameHead | undefined {
  if (!isFrame(marker) || at + 8 > bytes.length) return undefined;
  return { height: bytes.readUInt16BE(at + 3), width: bytes.readUInt16BE(at + 5), channels: bytes.readUInt8(at + 7), isSequential: SEQUENTIAL.has(marker) };
}

/** Each marker, and where its length stands. */
function* segments(bytes: Buffer): Generator<{ marker: number; at: number }> {
  let at = nextMarker(bytes, 2);
  while (at !== -1) {
    const marker = bytes[at] ?? 0;
    yield { marker, at: at + 1 };
    const end = at + 1 + (standsAlone(marker) ? 0 : lengthAt(bytes, at + 1));
    at = marker === SCAN ? afterScan(bytes, end) : nextMarker(bytes, end);
  }
}

const standsAlone = (marker: number): boolean => marker === TEMPORARY || (marker >= FIRST_RESTART && marker <= END);
const lengthAt = (bytes: Buffer, at: number): number => (at + 2 <= bytes.length ? bytes.readUInt16BE(at) : 0);
const isFrame = (marker: number): boolean => marker >= 0xc0 && marker <= 0xcf && !NO_FRAMES.has(marker);

/** Where the next marker's number stands; -1: there is none. */
function nextMarker(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(0xff, from); at !== -1 && at + 1 < bytes.length; at = bytes.indexOf(0xff, at + 1)) {
    const marker = bytes[at + 1];
    if (marker !== 0 && marker !== 0xff) return at + 1;
  }
  return -1;
}

/** The first marker that ends the data of a scan. */
function afterScan(bytes: Buffer, from: number): number {
  let at = nextMarker(bytes, from);
  while (at !== -1 && (bytes[at] ?? 0) >= FIRST_RESTART && (bytes[at] ?? 0) < START) at = nextMarker(bytes, at + 1);
  return at;
}
