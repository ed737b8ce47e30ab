import type { Db, Dialect, HotStatement } from '../database';
import type { CreatedPosition } from '../kernel/pages';
import type { ListedDevice } from './device';

/** Which part of a list to read: `limit` devices after a position, or after the first `offset`. */
export interface DeviceSlice {
  readonly after: CreatedPosition | undefined;
  readonly offset: number;
  readonly limit: number;
}

interface ListedRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly last_seen_at: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly physical_id: string | null;
  readonly client_device_id: string;
  readonly connection_id: string;
  readonly sensors: string;
}

// Before the newest device there is none: a position that every device comes after.
const BEFORE_ALL: CreatedPosition = { createdAt: Number.MAX_SAFE_INTEGER, id: '' };

const PAGE: HotStatement = {
  name: 'devices.page',
  sql: (dialect) => {
    const page = `select d.* from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) order by d.created_at desc, d.id desc limit ? offset ?`;
    return `select ${listed(dialect)} from (${page}) d left join physical_devices p on p.device_id = d.id order by d.created_at desc, d.id desc`;
  },
};

const TOTAL: HotStatement = {
  name: 'devices.total',
  sql: () => "select c.value as total from organization_counters c where c.organization_id = ? and c.name = 'devices'",
};

/** The columns of a ListedRow of the page `d` and its bindings `p`; the page is cut first, so that sensors are read for its devices only. */
function listed(dialect: Dialect): string {
  const sensors = dialect.jsonArray(dialect.jsonObject({ id: 's.id', sensorTemplateId: 's.sensor_template_id' }), 'sensors s where s.device_id = d.id', 's.position');
  return `d.id, d.organization_id, d.name, d.last_seen_at, d.created_at, d.updated_at, p.id as physical_id, p.client_device_id, p.connection_id, ${sensors} as sensors`;
}

/** Lists of devices, newest created first. Assumes validated input and a caller allowed to act in `organizationId`. */
export class DeviceListRepository {
  constructor(private readonly db: Db) {}

  /** One slice of all devices. */
  async list(organizationId: string, slice: DeviceSlice): Promise<ListedDevice[]> {
    const after = slice.after ?? BEFORE_ALL;
    const rows = await this.db.all<ListedRow>(PAGE, [organizationId, after.createdAt, after.id, slice.limit, slice.offset]);
    return rows.map(listedFromRow);
  }

  /** One slice of the devices whose name holds the text, which is folded as foldName does. */
  async search(organizationId: string, folded: string, slice: DeviceSlice): Promise<ListedDevice[]> {
    const { knex, dialect } = this.db;
    const after = slice.after ?? BEFORE_ALL;
    const page = knex('found as f').select('f.seq').whereRaw('(f.created_at, f.id) < (?, ?)', [after.createdAt, after.id]).orderBy(newestFirst('f')).limit(slice.limit).offset(slice.offset);
    const rows = await knex
      // Materialized, because an engine that starts from the order instead reads the names of the whole organization.
      .withMaterialized('found', this.holding(organizationId, folded).select('d.seq', 'd.created_at', 'd.id'))
      .select<ListedRow[]>(knex.raw(listed(dialect)))
      .from(page.as('page'))
      .join('digital_devices as d', 'd.seq', 'page.seq')
      .leftJoin('physical_devices as p', 'p.device_id', 'd.id')
      .orderBy(newestFirst('d'));
    return rows.map(listedFromRow);
  }

  /** How many devices the organization has; exact, from a counter. */
  async total(organizationId: string): Promise<number> {
    const [row] = await this.db.all<{ total: number }>(TOTAL, [organizationId]);
    return row?.total ?? 0;
  }

  /** How many devices have a name that holds the text, which is folded as foldName does. */
  async totalOfSearch(organizationId: string, folded: string): Promise<number> {
    const [row] = await this.holding(organizationId, folded).count<{ total: number }[]>({ total: '*' });
    return row?.total ?? 0;
  }

  private holding(organizationId: string, folded: string) {
    return this.db.dialect.nameHolds(this.db.knex('digital_devices as d').where('d.organization_id', organizationId), folded);
  }
}

function newestFirst(table: string) {
  return [{ column: `${table}.created_at`, order: 'desc' }, { column: `${table}.id`, order: 'desc' }];
}

function listedFromRow(row: ListedRow): ListedDevice {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    lastSeenAt: row.last_seen_at ?? undefined,
    physicalDevice: row.physical_id === null ? undefined : { id: row.physical_id, clientDeviceId: row.client_device_id, connectionId: row.connection_id },
    sensors: JSON.parse(row.sensors) as ListedDevice['sensors'],
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
