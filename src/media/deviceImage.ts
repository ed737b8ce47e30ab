import type { Violation } from '../kernel/errors';

/** A picture as a device shows it. */
export interface DeviceImage {
  /** The medium's. */
  readonly id: string;
  readonly filename: string;
  readonly contentType: string;
  readonly isCover: boolean;
  readonly position: number;
  readonly sizeBytes: number;
  /** When the medium was uploaded, Unix milliseconds. */
  readonly createdAt: number;
}

/** A picture to show on a device. */
export interface ImageInput {
  readonly mediaId: string;
  readonly isCover: boolean;
  /** Undefined: after those before it in the list. */
  readonly position: number | undefined;
}

/** What is wrong with a device's pictures as far as the list alone tells: two covers, a medium that stands in it twice. */
export function imageListViolations(images: readonly ImageInput[]): Violation[] {
  const cover = images.findIndex(({ isCover }) => isCover);
  const first = new Map<string, number>();
  return images.flatMap(({ mediaId, isCover }, at) => {
    const same = first.get(mediaId);
    if (same === undefined && mediaId !== '') first.set(mediaId, at); // an empty one is missing, which is said elsewhere
    return [
      ...(same === undefined ? [] : [{ field: `images[${at}].mediaId`, description: `is that of images[${same}] too; give each picture once` }]),
      ...(isCover && at !== cover ? [{ field: `images[${at}].isCover`, description: `images[${cover}] is the cover already; give at most one` }] : []),
    ];
  });
}

/** As the field rule of `position` has it: what is answered may be sent back. */
const HIGHEST_POSITION = 9999;

/** The same with all positions: one that is left out comes after the highest before it; equal ones keep the order of the list. */
export function placed(images: readonly ImageInput[]): readonly (ImageInput & { readonly position: number })[] {
  let highest = -1;
  return images.map((image) => {
    const position = image.position ?? Math.min(highest + 1, HIGHEST_POSITION);
    highest = Math.max(highest, position);
    return { ...image, position };
  });
}

/** What is said of pictures that are not there. `missing`: the ids. */
export function unknownImages(images: readonly ImageInput[], missing: ReadonlySet<string>): Violation[] {
  return images.flatMap(({ mediaId }, at) =>
    missing.has(mediaId) ? [{ field: `images[${at}].mediaId`, description: `picture ${JSON.stringify(mediaId)} does not exist in this organization; upload it first` }] : [],
  );
}
