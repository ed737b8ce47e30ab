import type { Db, PreparedStatement } from '../database';
import { isDeviceInScope, type DeviceScope } from '../kernel/resourceScope';

// Below the parameter limits of PostgreSQL and SQLite.
const MAX_PARAMETERS = 500;

interface BoundDevice {
  readonly id: string;
  readonly connectionId: string | null;
}

const BOUND_TO = '(select p.connection_id from physical_devices p where p.device_id = d.id) as "connectionId"';

const FIND_DEVICE: PreparedStatement = {
  name: 'devices.in_scope',
  sql: () => `select d.id, ${BOUND_TO} from digital_devices d where d.organization_id = ? and d.id = ?`,
};

/**
 * Checks which devices are currently in the scope of a restricted key. Assumes a caller who may act in
 * `organizationId`.
 */
export class DeviceScopeRepository {
  constructor(private readonly db: Db) {}

  /**
   * Returns the devices that the key names, or that are bound to a connection it names. A deleted device counts only if
   * it is named.
   */
  async filterInScope(
    organizationId: string,
    deviceScope: DeviceScope,
    deviceIds: Iterable<string>,
  ): Promise<ReadonlySet<string>> {
    const inScope = new Set<string>();
    const unnamed: string[] = [];
    for (const id of deviceIds) {
      if (deviceScope.ids.has(id)) inScope.add(id);
      else unnamed.push(id);
    }
    if (deviceScope.connectionIds.size === 0) return inScope;
    for (let offset = 0; offset < unnamed.length; offset += MAX_PARAMETERS) {
      const batch = unnamed.slice(offset, offset + MAX_PARAMETERS);
      const query = this.db
        .knex('physical_devices as p')
        .where('p.organization_id', organizationId)
        .whereIn('p.device_id', batch);
      const rows = await query.select<{ id: string; connectionId: string }[]>({
        id: 'p.device_id',
        connectionId: 'p.connection_id',
      });
      for (const { id, connectionId } of rows) if (deviceScope.connectionIds.has(connectionId)) inScope.add(id);
    }
    return inScope;
  }

  /** Returns the first device that does not exist or is outside the scope; undefined if there is none. */
  async findOutOfScope(
    organizationId: string,
    deviceScope: DeviceScope,
    deviceIds: readonly string[],
  ): Promise<string | undefined> {
    const [first = ''] = deviceIds;
    const rows =
      deviceIds.length === 1
        ? await this.db.all<BoundDevice>(FIND_DEVICE, [organizationId, first])
        : await this.findDevices(organizationId, deviceIds);
    const inScope = new Set(
      rows.filter(({ id, connectionId }) => isDeviceInScope(deviceScope, id, connectionId)).map(({ id }) => id),
    );
    return deviceIds.find((id) => !inScope.has(id));
  }

  /** Returns the physical devices of a connection whose digital devices the key names. */
  async listNamedClientDeviceIds(
    organizationId: string,
    { ids }: DeviceScope,
    connectionId: string,
  ): Promise<ReadonlySet<string>> {
    if (ids.size === 0) return new Set();
    // The `|| ''` hides the column from its index: otherwise SQLite reads all devices of the connection.
    const query = this.db
      .knex('physical_devices as p')
      .where('p.organization_id', organizationId)
      .whereRaw("p.connection_id || '' = ?", [connectionId])
      .whereIn('p.device_id', [...ids]);
    return new Set(await query.pluck<string[]>('p.client_device_id'));
  }

  /** Finds devices with the connections that they are bound to. */
  private async findDevices(organizationId: string, ids: readonly string[]): Promise<BoundDevice[]> {
    // The `|| ''` hides the column from its index: otherwise SQLite reads all devices of the organization, and does not
    // search by id.
    const query = this.db
      .knex('digital_devices as d')
      .whereRaw("d.organization_id || '' = ?", [organizationId])
      .whereIn('d.id', [...ids]);
    return await query.select<BoundDevice[]>('d.id', this.db.knex.raw(BOUND_TO));
  }
}
