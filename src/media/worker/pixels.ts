/** A decoded picture: four bytes a pixel (red, green, blue, alpha), row by row. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array | Uint8ClampedArray;
}

/** How a picture that is stored turned is turned back: EXIF's orientation, 1 to 8; 1: as it is. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

/** Whether turning it back swaps width and height. */
export function swapsSides(orientation: Orientation): boolean {
  return orientation >= 5;
}

/** The picture as it is to be shown. */
export function turned(pixels: Pixels, orientation: Orientation): Pixels {
  if (orientation === 1) return pixels;
  const { width, height } = pixels;
  const swaps = swapsSides(orientation);
  const [newWidth, newHeight] = swaps ? [height, width] : [width, height];
  const from = new Uint32Array(pixels.data.buffer, pixels.data.byteOffset, width * height);
  const to = new Uint32Array(width * height);
  const fromRight = [2, 3, 7, 8].includes(orientation);
  const fromBottom = [3, 4, 6, 7].includes(orientation);
  for (let y = 0; y < newHeight; y += 1) {
    for (let x = 0; x < newWidth; x += 1) {
      const [column, row] = swaps ? [y, x] : [x, y];
      to[y * newWidth + x] = from[(fromBottom ? height - 1 - row : row) * width + (fromRight ? width - 1 - column : column)] ?? 0;
    }
  }
  return { width: newWidth, height: newHeight, data: new Uint8Array(to.buffer) };
}

/** The picture in a smaller size: each new pixel is the mean of the area that it covers, transparent parts counting as little as they are seen. */
export function shrunk(pixels: Pixels, mostPixels: number): Pixels {
  const { width, height } = pixels;
  const scale = Math.min(1, mostPixels / Math.max(width, height));
  if (scale === 1) return pixels;
  const newWidth = Math.max(1, Math.round(width * scale));
  const newHeight = Math.max(1, Math.round(height * scale));
  const data = new Uint8Array(pixels.data.buffer, pixels.data.byteOffset, pixels.data.byteLength);
  const columns = spans(width, newWidth);
  const rows = spans(height, newHeight);
  const out = new Uint8Array(newWidth * newHeight * 4);
  const sums = new Float64Array(newWidth * 4);
  rows.forEach((row, y) => {
    sums.fill(0);
    for (const { at, share } of row) addRow(sums, data, at * width, columns, share);
    writeRow(out, y * newWidth * 4, sums, (width / newWidth) * (height / newHeight));
  });
  return { width: newWidth, height: newHeight, data: out };
}

interface Part {
  readonly at: number;
  /** How much of it, 0 to 1. */
  readonly share: number;
}

/** For each new pixel the old ones that it covers. */
function spans(size: number, newSize: number): readonly (readonly Part[])[] {
  const step = size / newSize;
  return Array.from({ length: newSize }, (_, index) => {
    const start = index * step;
    const end = Math.min(size, start + step);
    const parts: Part[] = [];
    for (let at = Math.floor(start); at < end; at += 1) {
      const share = Math.min(end, at + 1) - Math.max(start, at);
      if (share > 1e-9) parts.push({ at: Math.min(at, size - 1), share });
    }
    return parts;
  });
}

function addRow(sums: Float64Array, data: Uint8Array, rowAt: number, columns: readonly (readonly Part[])[], rowShare: number): void {
  columns.forEach((column, to) => {
    for (const { at, share } of column) addPixel(sums, to * 4, data, (rowAt + at) * 4, share * rowShare);
  });
}

/** Bounds are the caller's: this runs for each pixel. */
function addPixel(sums: Float64Array, to: number, data: Uint8Array, from: number, share: number): void {
  const alpha = byteAt(data, from + 3) * share;
  sums[to] = sumAt(sums, to) + byteAt(data, from) * alpha;
  sums[to + 1] = sumAt(sums, to + 1) + byteAt(data, from + 1) * alpha;
  sums[to + 2] = sumAt(sums, to + 2) + byteAt(data, from + 2) * alpha;
  sums[to + 3] = sumAt(sums, to + 3) + alpha;
}

// Two, for speed: each sees one kind of array.
const byteAt = (bytes: Uint8Array, index: number): number => bytes[index] ?? 0;
const sumAt = (sums: Float64Array, index: number): number => sums[index] ?? 0;

function writeRow(out: Uint8Array, rowAt: number, sums: Float64Array, area: number): void {
  for (let pixel = 0; pixel < sums.length; pixel += 4) {
    const alpha = sumAt(sums, pixel + 3);
    if (alpha === 0) continue;
    for (let channel = 0; channel < 3; channel += 1) out[rowAt + pixel + channel] = Math.round(sumAt(sums, pixel + channel) / alpha);
    out[rowAt + pixel + 3] = Math.round(alpha / area);
  }
}
