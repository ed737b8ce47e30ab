import type { Db, HotStatement } from '../database';
import { isDeviceInside, type DeviceReach } from '../kernel/reach';

// PostgreSQL and SQLite both take more values in one statement.
const MOST_VALUES = 500;

interface BoundDevice {
  readonly id: string;
  readonly connectionId: string | null;
}

const BOUND_TO = '(select p.connection_id from physical_devices p where p.device_id = d.id) as "connectionId"';

const ONE: HotStatement = {
  name: 'devices.reached',
  sql: () => `select d.id, ${BOUND_TO} from digital_devices d where d.organization_id = ? and d.id = ?`,
};

/** Tells which devices lie inside the reach of a limited key, now. Assumes a caller allowed to act in `organizationId`. */
export class DeviceReachRepository {
  constructor(private readonly db: Db) {}

  /** Those of these devices that are named, or bound to a connection that is. Of a device that is deleted only the name counts. */
  async inside(organizationId: string, reach: DeviceReach, deviceIds: Iterable<string>): Promise<ReadonlySet<string>> {
    const inside = new Set<string>();
    const others: string[] = [];
    for (const id of deviceIds) {
      if (reach.ids.has(id)) inside.add(id);
      else others.push(id);
    }
    if (reach.connectionIds.size === 0) return inside;
    for (let at = 0; at < others.length; at += MOST_VALUES) {
      const some = others.slice(at, at + MOST_VALUES);
      const query = this.db.knex('physical_devices as p').where('p.organization_id', organizationId).whereIn('p.device_id', some);
      const rows = await query.select<{ id: string; connectionId: string }[]>({ id: 'p.device_id', connectionId: 'p.connection_id' });
      for (const { id, connectionId } of rows) if (reach.connectionIds.has(connectionId)) inside.add(id);
    }
    return inside;
  }

  /** The first of these devices that is not there, or lies outside; undefined: none. */
  async outside(organizationId: string, reach: DeviceReach, deviceIds: readonly string[]): Promise<string | undefined> {
    const [first = ''] = deviceIds;
    const rows = deviceIds.length === 1 ? await this.db.all<BoundDevice>(ONE, [organizationId, first]) : await this.devices(organizationId, deviceIds);
    const inside = new Set(rows.filter(({ id, connectionId }) => isDeviceInside(reach, id, connectionId)).map(({ id }) => id));
    return deviceIds.find((id) => !inside.has(id));
  }

  /** The physical devices of a connection that devices are bound to which the key names. */
  async ofNamed(organizationId: string, { ids }: DeviceReach, connectionId: string): Promise<ReadonlySet<string>> {
    if (ids.size === 0) return new Set();
    // With the bare column SQLite would rather read all that is bound to the connection.
    const query = this.db.knex('physical_devices as p').where('p.organization_id', organizationId).whereRaw("p.connection_id || '' = ?", [connectionId]).whereIn('p.device_id', [...ids]);
    return new Set(await query.pluck<string[]>('p.client_device_id'));
  }

  private async devices(organizationId: string, ids: readonly string[]): Promise<BoundDevice[]> {
    // With the bare column SQLite would rather read all devices of the organization than look for many ids.
    const query = this.db.knex('digital_devices as d').whereRaw("d.organization_id || '' = ?", [organizationId]).whereIn('d.id', [...ids]);
    return await query.select<BoundDevice[]>('d.id', this.db.knex.raw(BOUND_TO));
  }
}
