import type { Db, Dialect } from '../database';
import { throwIfAny, type Violation } from '../kernel/errors';
import { isId } from '../kernel/ids';
import type { DeviceScope } from '../kernel/resourceScope';
import { normalizePositions, createUnknownImageViolations, type DeviceImage, type ImageInput } from './deviceImage';
import { MediaScopeRepository } from './mediaScopeRepository';

/**
 * SQL of a column for a statement over `digital_devices d`: the images of the device as JSON text, for
 * parseDeviceImages.
 */
export function getDeviceImagesSql(dialect: Dialect): string {
  const image = dialect.jsonObject({
    id: 'i.media_id',
    filename: 'm.filename',
    contentType: 'm.content_type',
    isCover: 'i.is_cover',
    position: 'i.position',
    sizeBytes: 'm.size_bytes',
    createdAt: 'm.created_at',
  });
  const images = dialect.jsonArray(
    image,
    'device_images i inner join media m on m.id = i.media_id where i.device_id = d.id',
    'i.position, i.list_order',
  );
  // Most devices have no images, and sorting none costs SQLite five times as much as this check.
  return `case when exists (select 1 from device_images i where i.device_id = d.id) then ${images} else '[]' end`;
}

/** Parses the column of getDeviceImagesSql. */
export function parseDeviceImages(text: string): readonly DeviceImage[] {
  if (text === '[]') return [];
  return (JSON.parse(text) as (Omit<DeviceImage, 'isCover'> & { isCover: number })[]).map((image) => ({
    ...image,
    isCover: image.isCover === 1,
  }));
}

/**
 * Stores which images a device shows. Assumes validated input (checkImageList), a device of `organizationId`, and for
 * writes that the device is locked in the transaction of `db`. An image is locked while it is added to a device or
 * removed from it, in the order of the ids, so that no removal and no other device interferes.
 */
export class ImageRepository {
  constructor(private readonly db: Db) {}

  /**
   * Finds invalid references: images that the organization does not have, or that are outside the scope of a limited
   * key. Invalid ids are reported elsewhere.
   */
  async check(organizationId: string, images: readonly ImageInput[], deviceScope?: DeviceScope): Promise<Violation[]> {
    const ids = getMediaIds(images).filter(isId);
    if (ids.length === 0) return [];
    const rows: { id: string }[] = await this.queryMedia(organizationId, ids).select('m.id');
    // 0: only devices outside the scope show the image. An image that no device shows is absent and inside the scope.
    const deviceCountById =
      deviceScope && (await new MediaScopeRepository(this.db).countDevicesInScope(organizationId, deviceScope, ids));
    const unknownIds = findMissingIds(
      images,
      rows.filter(({ id }) => deviceCountById?.get(id) !== 0),
    );
    return createUnknownImageViolations(images, new Set(ids.filter((id) => unknownIds.has(id))));
  }

  /** Replaces the images of a device. Throws `validation_failed` for images that the organization does not have. */
  async set(organizationId: string, deviceId: string, images: readonly ImageInput[], now: number): Promise<void> {
    const currentRows: { media_id: string }[] = await this.queryDeviceImages(organizationId, deviceId).select(
      'i.media_id',
    );
    const shownIds = currentRows.map((row) => row.media_id);
    if (images.length === 0 && shownIds.length === 0) return;
    const locked = await this.lock(organizationId, [...new Set([...shownIds, ...getMediaIds(images)])]);
    throwIfAny(createUnknownImageViolations(images, findMissingIds(images, locked)));
    await this.queryDeviceImages(organizationId, deviceId).delete();
    const rows = normalizePositions(images).map((image, index) => ({
      device_id: deviceId,
      media_id: image.mediaId,
      organization_id: organizationId,
      is_cover: image.isCover ? 1 : 0,
      position: image.position,
      list_order: index,
    }));
    if (rows.length > 0) {
      await this.db.knex('device_images').insert(rows);
      await this.queryMedia(organizationId, getMediaIds(images)).update({ unused_since: null });
    }
    await this.markUnused(organizationId, shownIds, now);
  }

  /** Removes all images from a device that is about to be deleted. */
  async remove(organizationId: string, deviceId: string, now: number): Promise<void> {
    await this.set(organizationId, deviceId, [], now);
  }

  /** Locks those of the images that exist until the end of the transaction, and returns their ids. */
  private async lock(organizationId: string, ids: readonly string[]): Promise<{ id: string }[]> {
    return await this.db.dialect.lockForUpdate(this.queryMedia(organizationId, ids).orderBy('m.id').select('m.id'));
  }

  /** Marks those of the images that no device shows any more: they are retained for a while, counted from `now`. */
  private async markUnused(organizationId: string, ids: readonly string[], now: number): Promise<void> {
    if (ids.length === 0) return;
    const uses = this.db.knex('device_images as i').where('i.media_id', this.db.knex.ref('m.id'));
    await this.queryMedia(organizationId, ids)
      .whereNull('m.unused_since')
      .whereNotExists(uses)
      .update({ unused_since: now });
  }

  private queryMedia(organizationId: string, ids: readonly string[]) {
    return this.db.knex('media as m').where('m.organization_id', organizationId).whereIn('m.id', ids);
  }

  private queryDeviceImages(organizationId: string, deviceId: string) {
    return this.db.knex('device_images as i').where('i.organization_id', organizationId).where('i.device_id', deviceId);
  }
}

const getMediaIds = (images: readonly ImageInput[]): string[] => images.map(({ mediaId }) => mediaId);

/** Returns the ids of the images that are not among the rows. */
function findMissingIds(images: readonly ImageInput[], rows: readonly { id: string }[]): Set<string> {
  const found = new Set(rows.map(({ id }) => id));
  return new Set(getMediaIds(images).filter((id) => !found.has(id)));
}
