import type { Knex } from 'knex';
import type { Db, Dialect, PreparedStatement } from '../database';
import type { CreatedPosition } from '../kernel/pages';
import { computeSeenHour, type ListedDevice } from './device';

/** The part of a list to read: `limit` devices after a position, or after the first `offset` devices. */
export interface DeviceSlice {
  readonly after: CreatedPosition | undefined;
  readonly offset: number;
  readonly limit: number;
}

/** Which devices to list. */
export interface DeviceFilter {
  /** Text that the name contains, folded by normalizeForSearch; empty matches any name. */
  readonly foldedSearch: string;
  /**
   * Unix milliseconds. Only devices last seen before it, or never seen and created before it; undefined: all devices.
   */
  readonly lastSeenBefore: number | undefined;
}

/** A row with the columns of `getListedDeviceColumns`. */
interface ListedDeviceRow {
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

/** A position before the newest device: every device comes after it. */
export const BEFORE_FIRST: CreatedPosition = { createdAt: Number.MAX_SAFE_INTEGER, id: '' };
const AFTER_LAST: CreatedPosition = { createdAt: Number.MIN_SAFE_INTEGER, id: '' };

/** How many devices are checked in list order before all silent devices are sorted instead. */
export const SCAN_BATCH_SIZE = 1000;

/** When the device `d` was last seen, or created if it was never seen. */
export const SEEN_AT = 'coalesce(d.last_seen_at, d.created_at)';
// Silent devices are those of earlier hours, and some of the hour that contains the time: two ranges of the index
// digital_devices_seen. It covers all columns for counting and sorting those of earlier hours; those of the same hour
// are read for their time.
const SILENT_IN_EARLIER_HOURS = 'from digital_devices d where d.organization_id = ? and d.seen_hour < ?';
const SILENT_IN_SAME_HOUR = `from digital_devices d where d.organization_id = ? and d.seen_hour = ? and ${SEEN_AT} < ?`;

/** The statements of this repository except the search. A test checks their plans. */
export const deviceListStatements = {
  page: {
    name: 'devices.page',
    sql: (dialect) =>
      selectListedDevices(
        dialect,
        'select d.* from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) order by d.created_at desc, d.id desc limit ? offset ?',
      ),
  },
  total: {
    name: 'devices.total',
    sql: () =>
      "select c.value as total from organization_counters c where c.organization_id = ? and c.name = 'devices'",
  },
  scanEnd: {
    name: 'devices.scan_end',
    sql: () =>
      'select d.created_at as "createdAt", d.id from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) order by d.created_at desc, d.id desc limit 1 offset ?',
  },
  silentInScan: {
    name: 'devices.silent_in_scan',
    sql: (dialect) =>
      selectListedDevices(
        dialect,
        `select d.* from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) and (d.created_at, d.id) >= (?, ?) and ${SEEN_AT} < ? order by d.created_at desc, d.id desc limit ? offset ?`,
      ),
  },
  silentPage: {
    name: 'devices.silent_page',
    sql: (dialect) => {
      const silentDevices = `select d.seq, d.created_at, d.id ${SILENT_IN_EARLIER_HOURS} union all select d.seq, d.created_at, d.id ${SILENT_IN_SAME_HOUR}`;
      const page = `select f.seq from (${silentDevices}) f where (f.created_at, f.id) < (?, ?) order by f.created_at desc, f.id desc limit ? offset ?`;
      return selectListedDevices(dialect, `select d.* from (${page}) page join digital_devices d on d.seq = page.seq`);
    },
  },
  silentTotal: {
    name: 'devices.silent_total',
    sql: () =>
      `select (select count(*) ${SILENT_IN_EARLIER_HOURS}) + (select count(*) ${SILENT_IN_SAME_HOUR}) as total`,
  },
} as const satisfies Record<string, PreparedStatement>;

const STATEMENTS = deviceListStatements;

/** Returns the SQL that selects the devices of a page, each as a ListedDeviceRow. */
function selectListedDevices(dialect: Dialect, page: string): string {
  return `select ${getListedDeviceColumns(dialect)} from (${page}) d left join physical_devices p on p.device_id = d.id order by d.created_at desc, d.id desc`;
}

/**
 * The columns of a ListedDeviceRow from the page `d` and its bindings `p`. The page is selected first, so that sensors
 * are read only for its devices.
 */
function getListedDeviceColumns(dialect: Dialect): string {
  const sensors = dialect.jsonArray(
    dialect.jsonObject({ id: 's.id', sensorTemplateId: 's.sensor_template_id' }),
    'sensors s where s.device_id = d.id',
    's.position',
  );
  return `d.id, d.organization_id, d.name, d.last_seen_at, d.created_at, d.updated_at, p.id as physical_id, p.client_device_id, p.connection_id, ${sensors} as sensors`;
}

/** Lists devices, newest first. Assumes validated input and a caller who may act in `organizationId`. */
export class DeviceListRepository {
  constructor(private readonly db: Db) {}

  /** Returns one slice of the devices that match the filter. */
  async list(organizationId: string, filter: DeviceFilter, slice: DeviceSlice): Promise<ListedDevice[]> {
    if (filter.foldedSearch) return await this.search(organizationId, filter, slice);
    const after = slice.after ?? BEFORE_FIRST;
    const before = filter.lastSeenBefore;
    const rows =
      before === undefined
        ? await this.db.all<ListedDeviceRow>(STATEMENTS.page, [
            organizationId,
            after.createdAt,
            after.id,
            slice.limit,
            slice.offset,
          ])
        : await this.listSilent(organizationId, before, { ...slice, after });
    return rows.map(listedDeviceFromRow);
  }

  /** Counts the devices that match the filter exactly. */
  async count(organizationId: string, filter: DeviceFilter): Promise<number> {
    const before = filter.lastSeenBefore;
    if (filter.foldedSearch) return await this.countMatches(organizationId, filter);
    const rows =
      before === undefined
        ? await this.db.all<{ total: number }>(STATEMENTS.total, [organizationId])
        : await this.db.all<{ total: number }>(STATEMENTS.silentTotal, getSilentParameters(organizationId, before));
    return rows[0]?.total ?? 0;
  }

  /**
   * Lists the silent devices (last seen before `before`) after a position. Checks the next SCAN_BATCH_SIZE devices of
   * the list first: if many are silent, these contain enough of them, and sorting all silent devices would be slow. If
   * they do not, few are silent, and sorting all of them is fast.
   */
  private async listSilent(
    organizationId: string,
    before: number,
    { after, offset, limit }: DeviceSlice & { readonly after: CreatedPosition },
  ): Promise<ListedDeviceRow[]> {
    const [end] = await this.db.all<CreatedPosition>(STATEMENTS.scanEnd, [
      organizationId,
      after.createdAt,
      after.id,
      SCAN_BATCH_SIZE,
    ]);
    const { createdAt, id } = end ?? AFTER_LAST; // no end: the list has fewer devices, and all of them are checked
    const rows = await this.db.all<ListedDeviceRow>(STATEMENTS.silentInScan, [
      organizationId,
      after.createdAt,
      after.id,
      createdAt,
      id,
      before,
      limit,
      offset,
    ]);
    if (!end || rows.length === limit) return rows;
    return await this.db.all<ListedDeviceRow>(STATEMENTS.silentPage, [
      ...getSilentParameters(organizationId, before),
      after.createdAt,
      after.id,
      limit,
      offset,
    ]);
  }

  /** Lists one slice of the devices whose name contains the text. */
  private async search(organizationId: string, filter: DeviceFilter, slice: DeviceSlice): Promise<ListedDevice[]> {
    const { knex } = this.db;
    const after = slice.after ?? BEFORE_FIRST;
    const page = knex('found as f')
      .select('f.seq')
      .whereRaw('(f.created_at, f.id) < (?, ?)', [after.createdAt, after.id])
      .orderBy(orderNewestFirst('f'))
      .limit(slice.limit)
      .offset(slice.offset);
    const matches = this.queryMatches(organizationId, filter).select('d.seq', 'd.created_at', 'd.id');
    // Materialized: otherwise an engine that starts from the order reads the names of the whole organization.
    return await readListedDevices(this.db, page, knex.withMaterialized('found', matches));
  }

  /** Counts the devices whose name contains the text. */
  private async countMatches(organizationId: string, filter: DeviceFilter): Promise<number> {
    const [row] = await this.queryMatches(organizationId, filter).count<{ total: number }[]>({ total: '*' });
    return row?.total ?? 0;
  }

  /** Builds the query for the devices whose name contains the text, as `d`. */
  private queryMatches(organizationId: string, { foldedSearch, lastSeenBefore }: DeviceFilter) {
    const matches = this.db.dialect.whereNameContains(
      this.db.knex('digital_devices as d').where('d.organization_id', organizationId),
      foldedSearch,
    );
    if (lastSeenBefore === undefined) return matches;
    // Not by the column of the hour: the engine would choose its index, but the name is more selective.
    return matches.whereRaw(`${SEEN_AT} < ?`, [lastSeenBefore]);
  }
}

/** The parameters of SILENT_IN_EARLIER_HOURS and SILENT_IN_SAME_HOUR, in this order. */
function getSilentParameters(organizationId: string, before: number): (string | number)[] {
  const hour = computeSeenHour(before);
  return [organizationId, hour, organizationId, hour, before];
}

/** Returns the sort order of the lists: the newest device first, for the columns of a table (or alias). */
export function orderNewestFirst(table: string) {
  return [
    { column: `${table}.created_at`, order: 'desc' },
    { column: `${table}.id`, order: 'desc' },
  ];
}

/**
 * Reads the devices whose `seq` the query `page` selects, newest first. `query`: starts with the expressions that the
 * page refers to.
 */
export async function readListedDevices(
  { knex, dialect }: Db,
  page: Knex.QueryBuilder,
  query: Knex.QueryBuilder = knex.queryBuilder(),
): Promise<ListedDevice[]> {
  const rows: ListedDeviceRow[] = await query
    .select(knex.raw(getListedDeviceColumns(dialect)))
    .from(page.as('page'))
    .join('digital_devices as d', 'd.seq', 'page.seq')
    .leftJoin('physical_devices as p', 'p.device_id', 'd.id')
    .orderBy(orderNewestFirst('d'));
  return rows.map(listedDeviceFromRow);
}

/** Converts a row to a listed device. */
function listedDeviceFromRow(row: ListedDeviceRow): ListedDevice {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    lastSeenAt: row.last_seen_at ?? undefined,
    physicalDevice:
      row.physical_id === null
        ? undefined
        : { id: row.physical_id, clientDeviceId: row.client_device_id, connectionId: row.connection_id },
    sensors: JSON.parse(row.sensors) as ListedDevice['sensors'],
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
