import type { Violation } from '../kernel/errors';

/** An image as a device shows it. */
export interface DeviceImage {
  /** The id of the image. */
  readonly id: string;
  readonly filename: string;
  readonly contentType: string;
  readonly isCover: boolean;
  readonly position: number;
  readonly sizeBytes: number;
  /** When the image was uploaded, Unix milliseconds. */
  readonly createdAt: number;
}

/** An image to show on a device. */
export interface ImageInput {
  readonly mediaId: string;
  readonly isCover: boolean;
  /** Undefined: after the images before it in the list. */
  readonly position: number | undefined;
}

/** Validates a device's list of images without the database: at most one cover, and each image listed once. */
export function checkImageList(images: readonly ImageInput[]): Violation[] {
  const coverIndex = images.findIndex(({ isCover }) => isCover);
  const firstIndexByMediaId = new Map<string, number>();
  const violations: Violation[] = [];
  for (const [index, { mediaId, isCover }] of images.entries()) {
    const firstIndex = firstIndexByMediaId.get(mediaId);
    if (firstIndex !== undefined)
      violations.push({
        field: `images[${index}].mediaId`,
        description: `is the same as images[${firstIndex}]: list each image once`,
      });
    else if (mediaId !== '') firstIndexByMediaId.set(mediaId, index); // an empty id is reported elsewhere as missing
    if (isCover && index !== coverIndex)
      violations.push({
        field: `images[${index}].isCover`,
        description: `images[${coverIndex}] is already the cover: set at most one`,
      });
  }
  return violations;
}

/** The field rule of `position` has the same bound, so that a response can be sent back as a request. */
const MAX_POSITION = 9999;

/** Fills in all positions: an omitted one comes after the highest before it; equal ones keep the order of the list. */
export function normalizePositions(
  images: readonly ImageInput[],
): readonly (ImageInput & { readonly position: number })[] {
  let highest = -1; // so that the first omitted position is 0
  return images.map((image) => {
    const position = image.position ?? Math.min(highest + 1, MAX_POSITION);
    highest = Math.max(highest, position);
    return { ...image, position };
  });
}

/** Creates the violations for images that do not exist. `missing`: their ids. */
export function createUnknownImageViolations(images: readonly ImageInput[], missing: ReadonlySet<string>): Violation[] {
  return images.flatMap(({ mediaId }, index) =>
    missing.has(mediaId)
      ? [
          {
            field: `images[${index}].mediaId`,
            description: `image ${JSON.stringify(mediaId)} does not exist in this organization: upload it first`,
          },
        ]
      : [],
  );
}
