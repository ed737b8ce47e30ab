/** A decoded image: four bytes per pixel (red, green, blue, alpha), row by row. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array | Uint8ClampedArray;
}

/** How to apply the EXIF orientation, 1 to 8; 1: no change. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

/** Whether applying it swaps width and height. */
export function swapsDimensions(orientation: Orientation): boolean {
  return orientation >= 5;
}

/**
 * Returns the image as it is shown: rotated and mirrored by its EXIF orientation. From 5 on, rows and columns are
 * swapped; some orientations also read the columns from the right, or the rows from the bottom.
 */
export function applyOrientation(pixels: Pixels, orientation: Orientation): Pixels {
  if (orientation === 1) return pixels;
  const { width, height } = pixels;
  const swaps = swapsDimensions(orientation);
  const [newWidth, newHeight] = swaps ? [height, width] : [width, height];
  // Each element is a pixel with its four bytes.
  const from = new Uint32Array(pixels.data.buffer, pixels.data.byteOffset, width * height);
  const to = new Uint32Array(width * height);
  const fromRight = [2, 3, 7, 8].includes(orientation);
  const fromBottom = [3, 4, 6, 7].includes(orientation);
  for (let y = 0; y < newHeight; y += 1) {
    for (let x = 0; x < newWidth; x += 1) {
      const [column, row] = swaps ? [y, x] : [x, y];
      const fromRow = fromBottom ? height - 1 - row : row;
      const fromColumn = fromRight ? width - 1 - column : column;
      to[y * newWidth + x] = from[fromRow * width + fromColumn] ?? 0;
    }
  }
  return { width: newWidth, height: newHeight, data: new Uint8Array(to.buffer) };
}

/** Scales the image down: each new pixel is the mean of the area that it covers, weighted by alpha. */
export function resize(pixels: Pixels, maxPixels: number): Pixels {
  const { width, height } = pixels;
  const scale = Math.min(1, maxPixels / Math.max(width, height));
  if (scale === 1) return pixels;
  const newWidth = Math.max(1, Math.round(width * scale));
  const newHeight = Math.max(1, Math.round(height * scale));
  const data = new Uint8Array(pixels.data.buffer, pixels.data.byteOffset, pixels.data.byteLength);
  const columns = computeSpans(width, newWidth);
  const rows = computeSpans(height, newHeight);
  const output = new Uint8Array(newWidth * newHeight * 4);
  const sums = new Float64Array(newWidth * 4); // of one new row, reused for each
  const coveredArea = (width / newWidth) * (height / newHeight); // in old pixels
  rows.forEach((row, y) => {
    sums.fill(0);
    for (const { index, weight } of row) addRow(sums, data, index * width, columns, weight);
    writeRow(output, y * newWidth * 4, sums, coveredArea);
  });
  return { width: newWidth, height: newHeight, data: output };
}

interface SpanPart {
  readonly index: number;
  /** How much of the old pixel the new one covers, 0 to 1. */
  readonly weight: number;
}

/**
 * Lists, for each new pixel of a row or column, the old pixels that it covers. Weights below 1e-9 are rounding errors.
 */
function computeSpans(size: number, newSize: number): readonly (readonly SpanPart[])[] {
  const step = size / newSize;
  return Array.from({ length: newSize }, (_, index) => {
    const start = index * step;
    const end = Math.min(size, start + step);
    const parts: SpanPart[] = [];
    for (let oldIndex = Math.floor(start); oldIndex < end; oldIndex += 1) {
      const weight = Math.min(end, oldIndex + 1) - Math.max(start, oldIndex);
      if (weight > 1e-9) parts.push({ index: Math.min(oldIndex, size - 1), weight });
    }
    return parts;
  });
}

/**
 * Adds a row of the original image to the sums of a row of the resized one. `rowOffset`: the index of the first pixel of
 * the original row. `columns`: the original pixels of each resized one.
 */
function addRow(
  sums: Float64Array,
  data: Uint8Array,
  rowOffset: number,
  columns: readonly (readonly SpanPart[])[],
  rowWeight: number,
): void {
  columns.forEach((column, newIndex) => {
    for (const { index, weight } of column)
      addPixel(sums, newIndex * 4, data, (rowOffset + index) * 4, weight * rowWeight);
  });
}

/**
 * Adds an old pixel to the sums of a new one: red, green and blue times alpha, and alpha, all times `weight`. The
 * offsets are array indexes that `computeSpans` keeps within the arrays.
 */
function addPixel(sums: Float64Array, sumOffset: number, data: Uint8Array, pixelOffset: number, weight: number): void {
  const alpha = getByte(data, pixelOffset + 3) * weight;
  sums[sumOffset] = getSum(sums, sumOffset) + getByte(data, pixelOffset) * alpha;
  sums[sumOffset + 1] = getSum(sums, sumOffset + 1) + getByte(data, pixelOffset + 1) * alpha;
  sums[sumOffset + 2] = getSum(sums, sumOffset + 2) + getByte(data, pixelOffset + 2) * alpha;
  sums[sumOffset + 3] = getSum(sums, sumOffset + 3) + alpha;
}

// Two functions for speed: each one handles one type of array.
const getByte = (bytes: Uint8Array, index: number): number => bytes[index] ?? 0;
const getSum = (sums: Float64Array, index: number): number => sums[index] ?? 0;

/**
 * Writes a new row from its sums (see addPixel): a color is its sum divided by the sum of alpha, and alpha is its sum
 * divided by `area`, the number of old pixels per new one. A pixel without any alpha stays 0.
 */
function writeRow(output: Uint8Array, rowOffset: number, sums: Float64Array, area: number): void {
  for (let pixel = 0; pixel < sums.length; pixel += 4) {
    const alpha = getSum(sums, pixel + 3);
    if (alpha === 0) continue;
    for (let channel = 0; channel < 3; channel += 1)
      output[rowOffset + pixel + channel] = Math.round(getSum(sums, pixel + channel) / alpha);
    output[rowOffset + pixel + 3] = Math.round(alpha / area);
  }
}
