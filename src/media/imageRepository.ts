import type { Db, Dialect } from '../database';
import { throwIfAny, type Violation } from '../kernel/errors';
import { isId } from '../kernel/ids';
import type { DeviceReach } from '../kernel/reach';
import { placed, unknownImages, type DeviceImage, type ImageInput } from './deviceImage';
import { PictureReachRepository } from './pictureReachRepository';

/** SQL of a column of a statement over `digital_devices d`: the pictures of the device as JSON text, for imagesFromJson. */
export function imagesOfDeviceSql(dialect: Dialect): string {
  const image = dialect.jsonObject({
    id: 'i.media_id',
    filename: 'm.filename',
    contentType: 'm.content_type',
    isCover: 'i.is_cover',
    position: 'i.position',
    sizeBytes: 'm.size_bytes',
    createdAt: 'm.created_at',
  });
  const images = dialect.jsonArray(image, 'device_images i inner join media m on m.id = i.media_id where i.device_id = d.id', 'i.position, i.list_order');
  // Most devices have none, and sorting none costs SQLite five times what asking does.
  return `case when exists (select 1 from device_images i where i.device_id = d.id) then ${images} else '[]' end`;
}

/** Reads that column. */
export function imagesFromJson(text: string): readonly DeviceImage[] {
  if (text === '[]') return [];
  return (JSON.parse(text) as (Omit<DeviceImage, 'isCover'> & { isCover: number })[]).map((image) => ({ ...image, isCover: image.isCover === 1 }));
}

/**
 * Which pictures a device shows. Assumes validated input (imageListViolations), a device of `organizationId`, and for the writes that it is
 * locked in the transaction of `db`. A picture is locked while it is given to a device or taken from it, in the order of the ids, so
 * that neither a removal nor another device comes in between.
 */
export class ImageRepository {
  constructor(private readonly db: Db) {}

  /** What is wrong with the references: pictures that the organization does not have, or that lie outside the reach of a limited key. What can be no id at all is told elsewhere. */
  async check(organizationId: string, images: readonly ImageInput[], reach?: DeviceReach): Promise<Violation[]> {
    const ids = wanted(images).filter(isId);
    if (ids.length === 0) return [];
    const rows: { id: string }[] = await this.media(organizationId, ids).select('m.id');
    const showing = reach && (await new PictureReachRepository(this.db).showing(organizationId, reach, ids));
    const unknown = missing(images, rows.filter(({ id }) => showing?.get(id) !== 0));
    return unknownImages(images, new Set(ids.filter((id) => unknown.has(id))));
  }

  /** Replaces the pictures of a device. Throws `validation_failed` for those that the organization does not have. */
  async set(organizationId: string, deviceId: string, images: readonly ImageInput[], now: number): Promise<void> {
    const before: { media_id: string }[] = await this.shown(organizationId, deviceId).select('i.media_id');
    const shown = before.map((row) => row.media_id);
    if (images.length === 0 && shown.length === 0) return;
    const locked = await this.lock(organizationId, [...new Set([...shown, ...wanted(images)])]);
    throwIfAny(unknownImages(images, missing(images, locked)));
    await this.shown(organizationId, deviceId).delete();
    const rows = placed(images).map((image, at) => ({
      device_id: deviceId,
      media_id: image.mediaId,
      organization_id: organizationId,
      is_cover: image.isCover ? 1 : 0,
      position: image.position,
      list_order: at,
    }));
    if (rows.length > 0) {
      await this.db.knex('device_images').insert(rows);
      await this.media(organizationId, wanted(images)).update({ unused_since: null });
    }
    await this.release(organizationId, shown, now);
  }

  /** Takes all pictures from a device that is about to be deleted. */
  async remove(organizationId: string, deviceId: string, now: number): Promise<void> {
    await this.set(organizationId, deviceId, [], now);
  }

  private async lock(organizationId: string, ids: readonly string[]): Promise<{ id: string }[]> {
    return await this.db.dialect.lockForUpdate(this.media(organizationId, ids).orderBy('m.id').select('m.id'));
  }

  /** Those that no device shows any more are kept for a while from now on. */
  private async release(organizationId: string, ids: readonly string[], now: number): Promise<void> {
    if (ids.length === 0) return;
    const uses = this.db.knex('device_images as i').where('i.media_id', this.db.knex.ref('m.id'));
    await this.media(organizationId, ids).whereNull('m.unused_since').whereNotExists(uses).update({ unused_since: now });
  }

  private media(organizationId: string, ids: readonly string[]) {
    return this.db.knex('media as m').where('m.organization_id', organizationId).whereIn('m.id', ids);
  }

  private shown(organizationId: string, deviceId: string) {
    return this.db.knex('device_images as i').where('i.organization_id', organizationId).where('i.device_id', deviceId);
  }
}

const wanted = (images: readonly ImageInput[]): string[] => images.map(({ mediaId }) => mediaId);

function missing(images: readonly ImageInput[], rows: readonly { id: string }[]): Set<string> {
  const found = new Set(rows.map(({ id }) => id));
  return new Set(wanted(images).filter((id) => !found.has(id)));
}
