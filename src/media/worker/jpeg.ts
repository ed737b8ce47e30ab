import { readExifOrientation } from './exif';
import type { Orientation } from './pixels';

/** The properties that the markers of a JPEG declare. */
interface JpegFrame {
  readonly width: number;
  readonly height: number;
  /** Color components; four: CMYK. */
  readonly channels: number;
  /** It has one scan, top to bottom, so that a decoder need not hold it in full precision. */
  readonly isOnePass: boolean;
  /** The number of scans. */
  readonly scans: number;
  readonly orientation: Orientation;
  /** Whether its end is present. Decoders fill in missing data without reporting it. */
  readonly isComplete: boolean;
}

// The numbers of markers, which follow a byte 0xff.
const TEMPORARY = 0x01;
const FIRST_RESTART = 0xd0;
const START_OF_IMAGE = 0xd8;
const END_OF_IMAGE = 0xd9;
const START_OF_SCAN = 0xda;
/** The application segment that contains EXIF data. */
const EXIF = 0xe1;
/** Frames of images that are not progressive. */
const SEQUENTIAL_FRAMES = new Set([0xc0, 0xc1]);
/** Numbers in the range of frame markers (0xc0 to 0xcf) that are not frames. */
const OTHER_SEGMENTS = new Set([0xc4, 0xc8, 0xcc]);

/** Whether the bytes start like a JPEG. */
export function isJpeg(bytes: Buffer): boolean {
  return bytes.length >= 3 && bytes.readUIntBE(0, 3) === 0xff_d8_ff;
}

/**
 * Reads what the markers declare, from marker to marker as decoders do; undefined for a file without a frame (the
 * header with the size). A scan is one pass over the image data; a progressive JPEG has several.
 */
export function readJpegFrame(bytes: Buffer): JpegFrame | undefined {
  let frame: FrameHeader | undefined;
  let orientation: Orientation | undefined;
  let firstScanChannels: number | undefined;
  let scans = 0;
  let isComplete = false;
  for (const { marker, offset } of readMarkers(bytes)) {
    isComplete = marker === END_OF_IMAGE;
    if (isComplete) break;
    if (marker === START_OF_SCAN) {
      scans += 1;
      firstScanChannels ??= bytes[offset + 2]; // the length, then the number of channels
    }
    orientation ??= readOrientation(bytes, marker, offset);
    frame ??= readFrame(bytes, marker, offset);
  }
  return (
    frame && {
      ...frame,
      isOnePass: isOnePass(frame, firstScanChannels),
      scans,
      orientation: orientation ?? 1,
      isComplete,
    }
  );
}

/** A first scan without all colors means that there are more scans. */
const isOnePass = ({ isSequential, channels }: FrameHeader, firstScanChannels = 0): boolean =>
  isSequential && firstScanChannels >= channels;

type FrameHeader = Pick<JpegFrame, 'width' | 'height' | 'channels'> & { readonly isSequential: boolean };

/** Reads the orientation in an EXIF segment, after its length (2 bytes); undefined for another marker. */
function readOrientation(bytes: Buffer, marker: number, offset: number): Orientation | undefined {
  return marker === EXIF
    ? readExifOrientation(bytes.subarray(offset + 2, offset + readLength(bytes, offset)))
    : undefined;
}

/** Reads a frame header: its length, sample precision, height, width and channels at the offsets 0, 2, 3, 5 and 7. */
function readFrame(bytes: Buffer, marker: number, offset: number): FrameHeader | undefined {
  if (!isFrame(marker) || offset + 8 > bytes.length) return undefined;
  return {
    height: bytes.readUInt16BE(offset + 3),
    width: bytes.readUInt16BE(offset + 5),
    channels: bytes.readUInt8(offset + 7),
    isSequential: SEQUENTIAL_FRAMES.has(marker),
  };
}

/**
 * Yields each marker, and the position of its length (2 bytes, which count themselves). Some markers have no length.
 */
function* readMarkers(bytes: Buffer): Generator<{ marker: number; offset: number }> {
  let offset = findMarker(bytes, 2); // after the marker START_OF_IMAGE; -1: no more markers
  while (offset !== -1) {
    const marker = bytes[offset] ?? 0;
    yield { marker, offset: offset + 1 };
    const end = offset + 1 + (hasNoLength(marker) ? 0 : readLength(bytes, offset + 1));
    offset = marker === START_OF_SCAN ? findScanEnd(bytes, end) : findMarker(bytes, end);
  }
}

const hasNoLength = (marker: number): boolean =>
  marker === TEMPORARY || (marker >= FIRST_RESTART && marker <= END_OF_IMAGE);
const readLength = (bytes: Buffer, offset: number): number =>
  offset + 2 <= bytes.length ? bytes.readUInt16BE(offset) : 0;
const isFrame = (marker: number): boolean => marker >= 0xc0 && marker <= 0xcf && !OTHER_SEGMENTS.has(marker);

/**
 * Finds the next marker and returns the position of its number; -1: there is none. A marker is a byte 0xff and its
 * number. 0xff 0x00 is not a marker but an escaped byte 0xff of the image data; a second 0xff is padding before a
 * marker.
 */
function findMarker(bytes: Buffer, start: number): number {
  let prefix = bytes.indexOf(0xff, start);
  while (prefix !== -1 && prefix + 1 < bytes.length) {
    const number = bytes[prefix + 1];
    if (number !== 0x00 && number !== 0xff) return prefix + 1;
    prefix = bytes.indexOf(0xff, prefix + 1);
  }
  return -1;
}

function isRestart(marker: number): boolean {
  return marker >= FIRST_RESTART && marker < START_OF_IMAGE;
}

/** Finds the first marker that ends the data of a scan; -1: there is none. Restart markers are a part of the data. */
function findScanEnd(bytes: Buffer, start: number): number {
  let offset = findMarker(bytes, start);
  while (offset !== -1 && isRestart(bytes[offset] ?? 0)) offset = findMarker(bytes, offset + 1);
  return offset;
}
