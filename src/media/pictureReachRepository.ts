import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Db } from '../database';
import { isDeviceInside, type DeviceReach } from '../kernel/reach';

/** A device that shows a picture. */
interface Use {
  readonly mediaId: string;
  readonly deviceId: string;
  readonly connectionId: string | null;
}

// All devices of a site may show the same picture.
const AT_ONCE = 2000;

/** Tells which pictures lie inside the reach of a limited key, now. Assumes a caller allowed to act in `organizationId`. */
export class PictureReachRepository {
  constructor(private readonly db: Db) {}

  /**
   * How many devices inside show each of these pictures. 0: others show it, so it lies outside; one that no device shows is not among them, and
   * lies inside. Compared here and in steps: with all that a key names a statement takes longer to read than most pictures have devices.
   */
  async showing(organizationId: string, reach: DeviceReach, ids: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const counts = new Map<string, number>();
    let last: Use | undefined;
    do {
      if (last) await othersTurn();
      const uses = await this.uses(organizationId, ids, last);
      for (const { mediaId, deviceId, connectionId } of uses) counts.set(mediaId, (counts.get(mediaId) ?? 0) + (isDeviceInside(reach, deviceId, connectionId) ? 1 : 0));
      last = uses.length < AT_ONCE ? undefined : uses.at(-1);
    } while (last);
    return counts;
  }

  /** The next uses, in the order of pictures and devices. */
  private async uses(organizationId: string, ids: readonly string[], after: Use | undefined): Promise<Use[]> {
    const { knex } = this.db;
    const page = knex('device_images as i').where('i.organization_id', organizationId).whereIn('i.media_id', [...ids]).orderBy(['i.media_id', 'i.device_id']).limit(AT_ONCE).select('i.media_id', 'i.device_id');
    if (after) void page.whereRaw('(i.media_id, i.device_id) > (?, ?)', [after.mediaId, after.deviceId]);
    const connection = knex('physical_devices as p').where('p.device_id', knex.ref('u.device_id')).select('p.connection_id').as('connectionId');
    return await knex.from(page.as('u')).orderBy(['u.media_id', 'u.device_id']).select<Use[]>({ mediaId: 'u.media_id', deviceId: 'u.device_id' }, connection);
  }
}
