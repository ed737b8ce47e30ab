import { MediaVariant, type DownloadMediaRequest, type DownloadMediaResponse, type Media as MediaMessage, type MediaServiceServer, type UploadMediaRequest } from '../gen/media/v1/media_service';
import { validationFailed } from '../kernel/errors';
import type { CallContext } from '../rpc/callContext';
import type { ClientStreamHandler, Content, HandlersOf, LinkedContent, ServerStreamHandler } from '../rpc/handlers';
import { mediaNotFound, type Variant } from './media';
import type { MediaLinks } from './mediaLinks';
import { mediaToMessage } from './mediaMessages';
import type { MediaContent, MediaService } from './mediaService';

/** The way from the wire to MediaService and back. */
export function mediaHandlers(service: MediaService, links: MediaLinks): HandlersOf<MediaServiceServer> {
  return {
    uploadMedia: upload(service, links),
    getMedia: async ({ id }, { organizationId, principal }) => mediaToMessage(await service.get(organizationId, id, principal.reach?.devices), links),
    downloadMedia: download(service, links),
    deleteMedia: async ({ id }, { organizationId, principal }) => {
      await service.delete(organizationId, id, principal.reach?.devices);
      return {};
    },
  };
}

/** What the links of pictures open, for a server of HTTP. */
export function linkedMedia(service: MediaService, links: MediaLinks): LinkedContent {
  return {
    path: '/media/:id',
    open: async ({ id = '' }, query) => {
      const link = links.open(id, query);
      if (!link) throw mediaNotFound(id);
      return contentOf(await service.content(link.organizationId, link.id, link.variant));
    },
  };
}

function upload(service: MediaService, links: MediaLinks): ClientStreamHandler<UploadMediaRequest, MediaMessage> {
  return async (requests, { organizationId, signal }) => mediaToMessage(await service.upload(organizationId, requests, signal), links);
}

function download(service: MediaService, links: MediaLinks): ServerStreamHandler<DownloadMediaRequest, DownloadMediaResponse> {
  const open = async ({ id, variant }: DownloadMediaRequest, { organizationId, principal }: CallContext): Promise<MediaContent> =>
    await service.content(organizationId, id, variantOf(variant), principal.reach?.devices);

  async function* answer(request: DownloadMediaRequest, context: CallContext): AsyncGenerator<DownloadMediaResponse> {
    const content = await open(request, context);
    const { offset } = request;
    if (offset > content.sizeBytes) throw validationFailed([{ field: 'offset', description: `lies beyond the end; give 0 to ${content.sizeBytes}` }]);
    let media: MediaMessage | undefined = mediaToMessage(content.media, links);
    for await (const chunk of content.read(offset, content.sizeBytes)) {
      yield { media, chunk: Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) };
      media = undefined;
    }
    if (media) yield { media, chunk: Buffer.alloc(0) };
  }
  const content = async (request: DownloadMediaRequest, context: CallContext): Promise<Content> => {
    if (request.offset !== 0) throw validationFailed([{ field: 'offset', description: `is not taken over HTTP; say it with the header Range: bytes=${request.offset}-` }]);
    return contentOf(await open(request, context));
  };
  return Object.assign(answer, { content });
}

function variantOf(variant: MediaVariant): Variant {
  return variant === MediaVariant.MEDIA_VARIANT_THUMBNAIL ? 'thumbnail' : 'original';
}

function contentOf(content: MediaContent): Content {
  const { sha256, contentType, filename, createdAt } = content.media;
  const small = { contentType: 'image/webp', etag: `${sha256}-small`, filename: filename === '' ? '' : `${filename}.webp` };
  return { contentType, etag: sha256, filename, ...(content.variant === 'thumbnail' && small), sizeBytes: content.sizeBytes, lastModified: createdAt, read: (start, end) => content.read(start, end) };
}
