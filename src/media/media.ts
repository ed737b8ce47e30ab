import { DomainError } from '../kernel/errors';

/** A picture that was uploaded. Times are Unix milliseconds. */
export interface Media {
  readonly id: string;
  readonly organizationId: string;
  /** SHA-256 of its bytes in lower-case hexadecimal; names its file. */
  readonly sha256: string;
  /** Without folders; empty: none was given. */
  readonly filename: string;
  /** `image/jpeg`, `image/png`, `image/webp`, `image/gif` or `image/avif`. */
  readonly contentType: string;
  readonly sizeBytes: number;
  readonly thumbnailBytes: number;
  /** In pixels, as it is shown: a turned photo is turned back. */
  readonly width: number;
  readonly height: number;
  readonly createdAt: number;
  /** Since when no device shows it; undefined while one does. */
  readonly unusedSince: number | undefined;
  /** On how many devices it is shown. */
  readonly deviceCount: number;
}

/** The picture as it was uploaded, or the small one. */
export type Variant = 'original' | 'thumbnail';

/** The most bytes that a picture has. */
export const MOST_BYTES = 10 * 1024 * 1024;

/** How long a picture is kept that no device shows, in milliseconds. */
export const UNUSED_MS = 24 * 3_600_000;

/** There is no such picture, or not in this organization. */
export function mediaNotFound(id: string): DomainError {
  return new DomainError('not_found', 'media_not_found', `picture ${JSON.stringify(id)} does not exist in this organization; upload it first (one that no device shows is removed after 24 hours)`, {
    metadata: { media_id: id },
  });
}

/** Devices show the picture. */
export function mediaInUse(id: string, deviceCount: number): DomainError {
  const devices = deviceCount === 1 ? 'a device shows' : `${deviceCount} devices show`;
  return new DomainError('conflict', 'media_in_use', `${devices} the picture; take it out of their images first`, { metadata: { media_id: id, uses: String(deviceCount) } });
}
