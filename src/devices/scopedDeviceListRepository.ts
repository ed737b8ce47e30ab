import { setImmediate } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Db, PreparedStatement } from '../database';
import type { CreatedPosition } from '../kernel/pages';
import type { DeviceScope } from '../kernel/resourceScope';
import type { ListedDevice } from './device';
import { DeviceCounterRepository } from './deviceCounterRepository';
import {
  BEFORE_FIRST,
  orderNewestFirst,
  readListedDevices,
  SEEN_AT,
  SCAN_BATCH_SIZE,
  type DeviceFilter,
  type DeviceSlice,
} from './deviceListRepository';

/**
 * Up to this number, the devices on the connections of a key are read and sorted in one batch. Beyond it, the list is
 * scanned in batches.
 */
const MAX_SORTED_DEVICES = 2000;

/** A device of a scanned batch. */
interface ScannedDevice extends CreatedPosition {
  readonly seq: number;
  /** Folded for the search. */
  readonly name: string;
  readonly seenAt: number;
  readonly connectionId: string | null;
}

const SCAN: PreparedStatement = {
  name: 'devices.scan',
  sql: () => `
    select d.seq, d.created_at as "createdAt", d.id, d.name_folded as name, ${SEEN_AT} as "seenAt", (select p.connection_id from physical_devices p where p.device_id = d.id) as "connectionId"
    from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) order by d.created_at desc, d.id desc limit ?`,
};

/**
 * Lists devices like DeviceListRepository, but only those in the scope of a restricted key. A small set is read
 * directly; for a connection with many devices the list is scanned in small batches, so that other statements run in
 * between. Assumes validated input and a caller who may act in `organizationId`.
 */
export class ScopedDeviceListRepository {
  private readonly ids: readonly string[];
  private readonly connectionIds: readonly string[];
  private readonly counters: DeviceCounterRepository;

  constructor(
    private readonly db: Db,
    private readonly deviceScope: DeviceScope,
  ) {
    this.ids = [...deviceScope.ids];
    this.connectionIds = [...deviceScope.connectionIds];
    this.counters = new DeviceCounterRepository(db);
  }

  /**
   * Returns one slice of the devices in scope that match the filter: of a small set directly, otherwise from a scan of
   * the list that skips `offset` devices and ends when `limit` are found.
   */
  async list(organizationId: string, filter: DeviceFilter, slice: DeviceSlice): Promise<ListedDevice[]> {
    const { after = BEFORE_FIRST, offset, limit } = slice;
    if (await this.isSmall(organizationId))
      return await readListedDevices(
        this.db,
        this.queryInScope(organizationId, filter, after)
          .orderBy(orderNewestFirst('candidate'))
          .limit(limit)
          .offset(offset),
      );
    const seqs: number[] = [];
    let skipped = 0;
    for await (const found of this.scanInBatches(organizationId, filter, after)) {
      const remaining = found.slice(Math.max(0, offset - skipped));
      skipped += found.length - remaining.length;
      seqs.push(...remaining.map(({ seq }) => seq));
      if (seqs.length >= limit) break;
    }
    if (seqs.length === 0) return [];
    return await readListedDevices(
      this.db,
      this.db
        .knex('digital_devices as candidate')
        .whereRaw(formatOrganizationCondition('candidate'), [organizationId])
        .whereIn('candidate.seq', seqs.slice(0, limit))
        .select('candidate.seq'),
    );
  }

  /** Counts the devices in scope that match the filter exactly. */
  async count(organizationId: string, filter: DeviceFilter): Promise<number> {
    if (await this.isSmall(organizationId))
      return await executeCount(this.queryInScope(organizationId, filter, BEFORE_FIRST));
    if (!filter.foldedSearch && filter.lastSeenBefore === undefined)
      return (await this.countBound(organizationId)) + (await this.countNamedElsewhere(organizationId));
    let count = 0;
    for await (const found of this.scanInBatches(organizationId, filter, BEFORE_FIRST)) count += found.length;
    return count;
  }

  /** Whether so few devices may be in scope that they are read and sorted directly. */
  private async isSmall(organizationId: string): Promise<boolean> {
    return this.connectionIds.length === 0 || (await this.countBound(organizationId)) <= MAX_SORTED_DEVICES;
  }

  /** Counts the devices that are bound to the connections of the key. */
  private async countBound(organizationId: string): Promise<number> {
    const counts = await this.counters.countBound(organizationId, this.connectionIds);
    return [...counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Counts the devices that the key names and that are not bound to its connections. */
  private async countNamedElsewhere(organizationId: string): Promise<number> {
    if (this.ids.length === 0) return 0;
    const query = this.queryNamed(organizationId).leftJoin('physical_devices as p', 'p.device_id', 'd.id');
    return await executeCount(
      query.where(
        (builder) => void builder.whereNull('p.connection_id').orWhereNotIn('p.connection_id', this.connectionIds),
      ),
    );
  }

  /** Selects the `seq` of all devices in scope that are older than a position, as `candidate`. */
  private queryInScope(organizationId: string, filter: DeviceFilter, after: CreatedPosition): Knex.QueryBuilder {
    const { knex } = this.db;
    const columns = ['d.seq', 'd.created_at', 'd.id'];
    const boundDevices = knex('physical_devices as b')
      .where('b.organization_id', organizationId)
      .whereIn('b.connection_id', this.connectionIds)
      .join('digital_devices as d', 'd.id', 'b.device_id');
    const reachable = applyFilter(this.queryNamed(organizationId), filter).select(columns);
    if (this.connectionIds.length > 0) void reachable.union([applyFilter(boundDevices, filter).select(columns)]);
    return knex
      .from(reachable.as('candidate'))
      .select('candidate.seq')
      .whereRaw('(candidate.created_at, candidate.id) < (?, ?)', [after.createdAt, after.id]);
  }

  /** Builds the query for the devices that the key names, as `d`. */
  private queryNamed(organizationId: string): Knex.QueryBuilder {
    return this.db
      .knex('digital_devices as d')
      .whereRaw(formatOrganizationCondition('d'), [organizationId])
      .whereIn('d.id', this.ids);
  }

  /** Yields the devices in scope of each batch of the list, starting after a position, until the list ends. */
  private async *scanInBatches(
    organizationId: string,
    { foldedSearch, lastSeenBefore = Infinity }: DeviceFilter,
    after: CreatedPosition,
  ): AsyncGenerator<readonly ScannedDevice[]> {
    const { ids, connectionIds } = this.deviceScope;
    for (let position: CreatedPosition | undefined = after; position;) {
      const batch: ScannedDevice[] = await this.db.all<ScannedDevice>(SCAN, [
        organizationId,
        position.createdAt,
        position.id,
        SCAN_BATCH_SIZE,
      ]);
      // Not in SQL: with a thousand ids, parsing the statement costs more than reading these devices.
      yield batch.filter(
        (device) =>
          (ids.has(device.id) || connectionIds.has(device.connectionId ?? '')) &&
          device.seenAt < lastSeenBefore &&
          device.name.includes(foldedSearch),
      );
      position = batch.length < SCAN_BATCH_SIZE ? undefined : batch.at(-1);
      await setImmediate();
    }
  }
}

/**
 * Formats the condition for an organization. The `|| ''` hides the column from its index: otherwise SQLite reads all
 * devices of the organization, and does not search by id.
 */
function formatOrganizationCondition(table: string): string {
  return `${table}.organization_id || '' = ?`;
}

/**
 * Adds the filter to a query for devices `d`. Searches without the name index, because few devices are searched: a name
 * contains the text if removing it changes the name. Unlike LIKE, this needs no escaping.
 */
function applyFilter(query: Knex.QueryBuilder, { foldedSearch, lastSeenBefore }: DeviceFilter): Knex.QueryBuilder {
  if (foldedSearch) void query.whereRaw("replace(d.name_folded, ?, '') <> d.name_folded", [foldedSearch]);
  return lastSeenBefore === undefined ? query : query.whereRaw(`${SEEN_AT} < ?`, [lastSeenBefore]);
}

/** Counts the rows of a query. */
async function executeCount(query: Knex.QueryBuilder): Promise<number> {
  const [row] = (await query.clearSelect().count({ total: '*' })) as { total: number }[];
  return row?.total ?? 0;
}
