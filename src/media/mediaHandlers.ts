import {
  MediaVariant,
  type DownloadMediaRequest,
  type DownloadMediaResponse,
  type Media as MediaMessage,
  type MediaServiceServer,
  type UploadMediaRequest,
} from '../gen/media/v1/media_service';
import { validationFailed } from '../kernel/errors';
import type { CallContext } from '../api/pipeline/callContext';
import type {
  ClientStreamHandler,
  Content,
  HandlersOf,
  LinkedContent,
  ServerStreamHandler,
} from '../api/pipeline/handlers';
import { mediaNotFound, type Variant } from './media';
import type { MediaLinks } from './mediaLinks';
import { mediaToMessage } from './mediaMessages';
import type { MediaContent, MediaService } from './mediaService';

/** Creates the handlers of the API, which convert requests for MediaService and its results to responses. */
export function mediaHandlers(service: MediaService, links: MediaLinks): HandlersOf<MediaServiceServer> {
  return {
    uploadMedia: createUploadHandler(service, links),
    getMedia: async ({ id }, { organizationId, principal }) =>
      mediaToMessage(await service.get(organizationId, id, principal.resourceScope?.devices), links),
    downloadMedia: createDownloadHandler(service, links),
    deleteMedia: async ({ id }, { organizationId, principal }) => {
      await service.delete(organizationId, id, principal.resourceScope?.devices);
      return {};
    },
  };
}

/** Opens image links, for an HTTP server. */
export function createLinkedMedia(service: MediaService, links: MediaLinks): LinkedContent {
  return {
    path: '/media/:id',
    open: async ({ id = '' }, query) => {
      const link = links.open(id, query);
      if (!link) throw mediaNotFound(id);
      return toHttpContent(await service.getContent(link.organizationId, link.id, link.variant));
    },
  };
}

function createUploadHandler(
  service: MediaService,
  links: MediaLinks,
): ClientStreamHandler<UploadMediaRequest, MediaMessage> {
  return async (requests, { organizationId, signal }) =>
    mediaToMessage(await service.upload(organizationId, requests, signal), links);
}

/** Creates the handler of downloads: it streams the image in chunks over gRPC, and provides it as content over HTTP. */
function createDownloadHandler(
  service: MediaService,
  links: MediaLinks,
): ServerStreamHandler<DownloadMediaRequest, DownloadMediaResponse> {
  const openContent = async (
    { id, variant }: DownloadMediaRequest,
    { organizationId, principal }: CallContext,
  ): Promise<MediaContent> =>
    await service.getContent(organizationId, id, variantFromMessage(variant), principal.resourceScope?.devices);

  async function* streamChunks(
    request: DownloadMediaRequest,
    context: CallContext,
  ): AsyncGenerator<DownloadMediaResponse> {
    const content = await openContent(request, context);
    const { offset } = request;
    if (offset > content.sizeBytes)
      throw validationFailed([
        { field: 'offset', description: `is beyond the end of the image: send 0 to ${content.sizeBytes}` },
      ]);
    let media: MediaMessage | undefined = mediaToMessage(content.media, links); // only in the first response
    for await (const chunk of content.read(offset, content.sizeBytes)) {
      yield { media, chunk: Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) };
      media = undefined;
    }
    if (media) yield { media, chunk: Buffer.alloc(0) }; // the offset is the end of the image
  }
  const openHttpContent = async (request: DownloadMediaRequest, context: CallContext): Promise<Content> => {
    if (request.offset !== 0)
      throw validationFailed([
        {
          field: 'offset',
          description: `is not supported over HTTP: send the header Range: bytes=${request.offset}-`,
        },
      ]);
    return toHttpContent(await openContent(request, context));
  };
  // gRPC calls the function, HTTP its property `content`.
  return Object.assign(streamChunks, { content: openHttpContent });
}

function variantFromMessage(variant: MediaVariant): Variant {
  return variant === MediaVariant.MEDIA_VARIANT_THUMBNAIL ? 'thumbnail' : 'original';
}

/** Converts an image, or its thumbnail, which is always WebP, to the content of an HTTP response. */
function toHttpContent(content: MediaContent): Content {
  const { sha256, contentType, filename, createdAt } = content.media;
  const thumbnailFields = {
    contentType: 'image/webp',
    etag: `${sha256}-small`,
    filename: filename === '' ? '' : `${filename}.webp`,
  };
  return {
    contentType,
    etag: sha256,
    filename,
    ...(content.variant === 'thumbnail' && thumbnailFields),
    sizeBytes: content.sizeBytes,
    lastModified: createdAt,
    read: (start, end) => content.read(start, end),
  };
}
