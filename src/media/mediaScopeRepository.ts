import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Db } from '../database';
import { isDeviceInScope, type DeviceScope } from '../kernel/resourceScope';

/** A device that shows an image. */
interface MediaUse {
  readonly mediaId: string;
  readonly deviceId: string;
  readonly connectionId: string | null;
}

// All devices of a site may show the same image.
const ROW_BATCH_SIZE = 2000;

/**
 * Determines which images are inside the current scope of a restricted key. Assumes a caller allowed to act in
 * `organizationId`.
 */
export class MediaScopeRepository {
  constructor(private readonly db: Db) {}

  /**
   * Counts, for each of these images, the devices inside the scope that show it. 0: only devices outside the scope show
   * the image, so it is outside too. An image that no device shows, such as a new one, is not in the result, and is
   * inside. The devices are compared here, in batches, and not in SQL: a key may name so many ids that parsing the
   * statement takes longer than reading the devices of an image.
   */
  async countDevicesInScope(
    organizationId: string,
    deviceScope: DeviceScope,
    mediaIds: readonly string[],
  ): Promise<ReadonlyMap<string, number>> {
    const countByMediaId = new Map<string, number>();
    let lastUse: MediaUse | undefined;
    do {
      if (lastUse) await yieldToEventLoop();
      const uses = await this.listUses(organizationId, mediaIds, lastUse);
      for (const { mediaId, deviceId, connectionId } of uses)
        countByMediaId.set(
          mediaId,
          (countByMediaId.get(mediaId) ?? 0) + (isDeviceInScope(deviceScope, deviceId, connectionId) ? 1 : 0),
        );
      lastUse = uses.length < ROW_BATCH_SIZE ? undefined : uses.at(-1);
    } while (lastUse);
    return countByMediaId;
  }

  /**
   * Returns the next uses after the use `after`, ordered by image and device: at most ROW_BATCH_SIZE. The page is
   * limited in a subquery, so that connections are looked up only for its rows.
   */
  private async listUses(
    organizationId: string,
    mediaIds: readonly string[],
    after: MediaUse | undefined,
  ): Promise<MediaUse[]> {
    const { knex } = this.db;
    const page = knex('device_images as i')
      .where('i.organization_id', organizationId)
      .whereIn('i.media_id', [...mediaIds])
      .orderBy(['i.media_id', 'i.device_id'])
      .limit(ROW_BATCH_SIZE)
      .select('i.media_id', 'i.device_id');
    if (after) void page.whereRaw('(i.media_id, i.device_id) > (?, ?)', [after.mediaId, after.deviceId]);
    const connectionIdQuery = knex('physical_devices as p')
      .where('p.device_id', knex.ref('u.device_id'))
      .select('p.connection_id')
      .as('connectionId');
    return await knex
      .from(page.as('u'))
      .orderBy(['u.media_id', 'u.device_id'])
      .select<MediaUse[]>({ mediaId: 'u.media_id', deviceId: 'u.device_id' }, connectionIdQuery);
  }
}
