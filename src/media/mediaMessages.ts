import type { Media as MediaMessage } from '../gen/media/v1/media_service';
import { optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import { UNUSED_RETENTION_MS, type Media } from './media';
import type { MediaLinks } from './mediaLinks';

/** Maps an image to its message. */
export function mediaToMessage(media: Media, links: MediaLinks): MediaMessage {
  const { id, organizationId, filename, contentType, sizeBytes, width, height, sha256, deviceCount, unusedSince } =
    media;
  return {
    id,
    organizationId,
    filename,
    contentType,
    sizeBytes,
    width,
    height,
    sha256,
    createdAt: toTimestamp(media.createdAt),
    ...links.createLinks(organizationId, id),
    deviceCount,
    expiresAt: optionalTimestamp(unusedSince === undefined ? undefined : unusedSince + UNUSED_RETENTION_MS),
  };
}
