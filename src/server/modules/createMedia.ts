import { openLinkSecret } from '../../access';
import { mediaHandlers, MediaLinks, MediaService } from '../../media';
import type { Foundation } from '../foundation';
import type { Authentication } from './createAuthentication';

/** The media module of a running server. */
export type MediaModule = Awaited<ReturnType<typeof createMedia>>;

/** Creates and starts image storage. `getPublicUrl` returns the base URL of image links. */
export async function createMedia(
  { config, database, clock, log, disposables }: Foundation,
  { uow, installationId }: Pick<Authentication, 'uow' | 'installationId'>,
  getPublicUrl: () => string,
) {
  const service = new MediaService({ database, dataDir: config.data.dir, installationId, clock, log });
  await service.start();
  disposables.add(async () => await service.stop());
  const links = new MediaLinks(await openLinkSecret(uow), getPublicUrl, clock);
  return { service, links, handlers: mediaHandlers(service, links) };
}
