import { DomainError } from '../kernel/errors';

/** An uploaded image. Times are Unix milliseconds. */
export interface Media {
  readonly id: string;
  readonly organizationId: string;
  /** SHA-256 of its bytes in lower-case hexadecimal. It is the name of its file. */
  readonly sha256: string;
  /** Without folders; empty: the caller sent no name. */
  readonly filename: string;
  /** `image/jpeg`, `image/png`, `image/webp`, `image/gif` or `image/avif`. */
  readonly contentType: string;
  readonly sizeBytes: number;
  readonly thumbnailBytes: number;
  /** In pixels, as shown: the orientation of a photo is applied. */
  readonly width: number;
  readonly height: number;
  readonly createdAt: number;
  /** Since when no device shows it; undefined: a device shows it. */
  readonly unusedSince: number | undefined;
  /** The number of devices that show it. */
  readonly deviceCount: number;
}

/** The uploaded image or its thumbnail. */
export type Variant = 'original' | 'thumbnail';

/** The maximum size of an image in bytes. */
export const MAX_IMAGE_BYTES = 10 * 1024 * 1024;

/** How long an image that no device shows is retained, in milliseconds. */
export const UNUSED_RETENTION_MS = 24 * 3_600_000;

/** Creates the error for an image that does not exist in the organization. */
export function mediaNotFound(id: string): DomainError {
  return new DomainError(
    'not_found',
    'media_not_found',
    `image ${JSON.stringify(id)} does not exist in this organization: upload it first (images that no device shows are deleted after 24 hours)`,
    {
      metadata: { media_id: id },
    },
  );
}

/** Creates the error for deleting an image that devices show. */
export function mediaInUse(id: string, deviceCount: number): DomainError {
  const message =
    deviceCount === 1
      ? 'a device shows the image: remove it from the images of the device first'
      : `${deviceCount} devices show the image: remove it from the images of these devices first`;
  return new DomainError('conflict', 'media_in_use', message, {
    metadata: { media_id: id, uses: String(deviceCount) },
  });
}
