import type { Db, Dialect, HotStatement } from '../database';
import type { CreatedPosition } from '../kernel/pages';
import { seenHour, type IntervalUnit, type ListedDevice } from './device';

/** Which part of a list to read: `limit` devices after a position, or after the first `offset`. */
export interface DeviceSlice {
  readonly after: CreatedPosition | undefined;
  readonly offset: number;
  readonly limit: number;
}

/** Which devices to list. */
export interface DeviceFilter {
  /** A text that the name holds, folded as foldName does; empty: any name. */
  readonly folded: string;
  /** Unix milliseconds: only devices that were last seen before, or were created before and never seen; undefined: all. */
  readonly lastSeenBefore: number | undefined;
}

/** A row of the columns `listed`. */
export interface ListedRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly last_seen_at: number | null;
  readonly interval_unit: IntervalUnit | null;
  readonly interval_value: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly physical_id: string | null;
  readonly client_device_id: string;
  readonly connection_id: string;
  readonly sensors: string;
}

/** Before the newest device there is none: a position that every device comes after. */
export const BEFORE_ALL: CreatedPosition = { createdAt: Number.MAX_SAFE_INTEGER, id: '' };
const AFTER_ALL: CreatedPosition = { createdAt: Number.MIN_SAFE_INTEGER, id: '' };

/** So many devices are looked at one by one before all that are missing are sorted. */
export const STRETCH = 1000;

/** When the device `d` was seen, or created if it never was. */
export const SEEN_AT = 'coalesce(d.last_seen_at, d.created_at)';
// Missing are those of the hours before, and some of the hour that the time lies in: two ranges of the index digital_devices_seen,
// which holds all that is counted and sorted by.
const HOURS_BEFORE = 'from digital_devices d where d.organization_id = ? and d.seen_hour < ?';
const THAT_HOUR = `from digital_devices d where d.organization_id = ? and d.seen_hour = ? and ${SEEN_AT} < ?`;

/** The statements of this repository but the search, for the test of their plans. */
export const deviceListStatements = {
  page: {
    name: 'devices.page',
    sql: (dialect) => joined(dialect, 'select d.* from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) order by d.created_at desc, d.id desc limit ? offset ?'),
  },
  total: {
    name: 'devices.total',
    sql: () => "select c.value as total from organization_counters c where c.organization_id = ? and c.name = 'devices'",
  },
  stretch: {
    name: 'devices.stretch',
    sql: () => 'select d.created_at as "createdAt", d.id from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) order by d.created_at desc, d.id desc limit 1 offset ?',
  },
  missingInStretch: {
    name: 'devices.missing_in_stretch',
    sql: (dialect) =>
      joined(dialect, `select d.* from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) and (d.created_at, d.id) >= (?, ?) and ${SEEN_AT} < ? order by d.created_at desc, d.id desc limit ? offset ?`),
  },
  missingPage: {
    name: 'devices.missing_page',
    sql: (dialect) => {
      const missing = `select d.seq, d.created_at, d.id ${HOURS_BEFORE} union all select d.seq, d.created_at, d.id ${THAT_HOUR}`;
      const page = `select f.seq from (${missing}) f where (f.created_at, f.id) < (?, ?) order by f.created_at desc, f.id desc limit ? offset ?`;
      return joined(dialect, `select d.* from (${page}) page join digital_devices d on d.seq = page.seq`);
    },
  },
  missingTotal: {
    name: 'devices.missing_total',
    sql: () => `select (select count(*) ${HOURS_BEFORE}) + (select count(*) ${THAT_HOUR}) as total`,
  },
} as const satisfies Record<string, HotStatement>;

const ALL = deviceListStatements;

/** The devices of a page as ListedRows. */
function joined(dialect: Dialect, page: string): string {
  return `select ${listed(dialect)} from (${page}) d left join physical_devices p on p.device_id = d.id order by d.created_at desc, d.id desc`;
}

/** The columns of a ListedRow of the page `d` and its bindings `p`; the page is cut first, so that sensors are read for its devices only. */
export function listed(dialect: Dialect): string {
  const sensors = dialect.jsonArray(dialect.jsonObject({ id: 's.id', sensorTemplateId: 's.sensor_template_id' }), 'sensors s where s.device_id = d.id', 's.position');
  return `d.id, d.organization_id, d.name, d.last_seen_at, d.interval_unit, d.interval_value, d.created_at, d.updated_at, p.id as physical_id, p.client_device_id, p.connection_id, ${sensors} as sensors`;
}

/** Lists of devices, newest created first. Assumes validated input and a caller allowed to act in `organizationId`. */
export class DeviceListRepository {
  constructor(private readonly db: Db) {}

  /** One slice of the devices that the filter lets through. */
  async list(organizationId: string, filter: DeviceFilter, slice: DeviceSlice): Promise<ListedDevice[]> {
    if (filter.folded) return await this.search(organizationId, filter, slice);
    const after = slice.after ?? BEFORE_ALL;
    const before = filter.lastSeenBefore;
    const rows = before === undefined ? await this.db.all<ListedRow>(ALL.page, [organizationId, after.createdAt, after.id, slice.limit, slice.offset]) : await this.missing(organizationId, before, { ...slice, after });
    return rows.map(listedFromRow);
  }

  /** How many devices the filter lets through; exact. */
  async total(organizationId: string, filter: DeviceFilter): Promise<number> {
    const before = filter.lastSeenBefore;
    if (filter.folded) return await this.totalOfSearch(organizationId, filter);
    const rows = before === undefined ? await this.db.all<{ total: number }>(ALL.total, [organizationId]) : await this.db.all<{ total: number }>(ALL.missingTotal, missingBefore(organizationId, before));
    return rows[0]?.total ?? 0;
  }

  /** Where many are missing, the next ones are near, and sorting all of them would take long; where they are not near, few are missing. */
  private async missing(organizationId: string, before: number, { after, offset, limit }: DeviceSlice & { readonly after: CreatedPosition }): Promise<ListedRow[]> {
    const [end] = await this.db.all<CreatedPosition>(ALL.stretch, [organizationId, after.createdAt, after.id, STRETCH]);
    const { createdAt, id } = end ?? AFTER_ALL;
    const rows = await this.db.all<ListedRow>(ALL.missingInStretch, [organizationId, after.createdAt, after.id, createdAt, id, before, limit, offset]);
    if (!end || rows.length === limit) return rows;
    return await this.db.all<ListedRow>(ALL.missingPage, [...missingBefore(organizationId, before), after.createdAt, after.id, limit, offset]);
  }

  private async search(organizationId: string, filter: DeviceFilter, slice: DeviceSlice): Promise<ListedDevice[]> {
    const { knex, dialect } = this.db;
    const after = slice.after ?? BEFORE_ALL;
    const page = knex('found as f').select('f.seq').whereRaw('(f.created_at, f.id) < (?, ?)', [after.createdAt, after.id]).orderBy(newestFirst('f')).limit(slice.limit).offset(slice.offset);
    const rows = await knex
      // Materialized, because an engine that starts from the order instead reads the names of the whole organization.
      .withMaterialized('found', this.holding(organizationId, filter).select('d.seq', 'd.created_at', 'd.id'))
      .select<ListedRow[]>(knex.raw(listed(dialect)))
      .from(page.as('page'))
      .join('digital_devices as d', 'd.seq', 'page.seq')
      .leftJoin('physical_devices as p', 'p.device_id', 'd.id')
      .orderBy(newestFirst('d'));
    return rows.map(listedFromRow);
  }

  private async totalOfSearch(organizationId: string, filter: DeviceFilter): Promise<number> {
    const [row] = await this.holding(organizationId, filter).count<{ total: number }[]>({ total: '*' });
    return row?.total ?? 0;
  }

  private holding(organizationId: string, { folded, lastSeenBefore }: DeviceFilter) {
    const found = this.db.dialect.nameHolds(this.db.knex('digital_devices as d').where('d.organization_id', organizationId), folded);
    if (lastSeenBefore === undefined) return found;
    // Not by the hour: the engine would start with it, and the name tells more.
    return found.whereRaw(`${SEEN_AT} < ?`, [lastSeenBefore]);
  }
}

/** The values of HOURS_BEFORE and THAT_HOUR. */
function missingBefore(organizationId: string, before: number): (string | number)[] {
  const hour = seenHour(before);
  return [organizationId, hour, organizationId, hour, before];
}

/** The order of the lists. */
export function newestFirst(table: string) {
  return [{ column: `${table}.created_at`, order: 'desc' }, { column: `${table}.id`, order: 'desc' }];
}

/** Reads such a row. */
export function listedFromRow(row: ListedRow): ListedDevice {
  const { interval_unit: unit, interval_value: value } = row;
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    lastSeenAt: row.last_seen_at ?? undefined,
    physicalDevice: row.physical_id === null ? undefined : { id: row.physical_id, clientDeviceId: row.client_device_id, connectionId: row.connection_id },
    sensors: JSON.parse(row.sensors) as ListedDevice['sensors'],
    dataSendingInterval: unit === null || value === null ? undefined : { unit, value },
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
