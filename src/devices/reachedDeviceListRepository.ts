import { setImmediate } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Db, HotStatement } from '../database';
import type { CreatedPosition } from '../kernel/pages';
import type { DeviceReach } from '../kernel/reach';
import type { ListedDevice } from './device';
import { DeviceCounterRepository } from './deviceCounterRepository';
import { BEFORE_ALL, listed, listedFromRow, newestFirst, SEEN_AT, STRETCH, type DeviceFilter, type DeviceSlice, type ListedRow } from './deviceListRepository';

/** So many devices on the connections of a key are read and sorted at once; where there are more, the list is walked instead. */
const FEW = 2000;

/** A device that the walk passes. */
interface Passed extends CreatedPosition {
  readonly seq: number;
  /** Folded. */
  readonly name: string;
  readonly seenAt: number;
  readonly connectionId: string | null;
}

const WALK: HotStatement = {
  name: 'devices.walk',
  sql: () => `
    select d.seq, d.created_at as "createdAt", d.id, d.name_folded as name, ${SEEN_AT} as "seenAt", (select p.connection_id from physical_devices p where p.device_id = d.id) as "connectionId"
    from digital_devices d where d.organization_id = ? and (d.created_at, d.id) < (?, ?) order by d.created_at desc, d.id desc limit ?`,
};

/**
 * The lists of DeviceListRepository as a key sees them that is limited to some devices. Few devices are read as they are; of a connection with
 * many the list is walked in short steps, between which others have their turn. Assumes validated input and a caller allowed to act in `organizationId`.
 */
export class ReachedDeviceListRepository {
  private readonly ids: readonly string[];
  private readonly connectionIds: readonly string[];
  private readonly counters: DeviceCounterRepository;

  constructor(
    private readonly db: Db,
    private readonly reach: DeviceReach,
  ) {
    this.ids = [...reach.ids];
    this.connectionIds = [...reach.connectionIds];
    this.counters = new DeviceCounterRepository(db);
  }

  /** One slice of the devices inside that the filter lets through. */
  async list(organizationId: string, filter: DeviceFilter, slice: DeviceSlice): Promise<ListedDevice[]> {
    const { after = BEFORE_ALL, offset, limit } = slice;
    if (await this.isFew(organizationId)) return await this.read(this.few(organizationId, filter, after).orderBy(newestFirst('f')).limit(limit).offset(offset));
    const seqs: number[] = [];
    let skipped = 0;
    for await (const found of this.walk(organizationId, filter, after)) {
      const left = found.slice(Math.max(0, offset - skipped));
      skipped += found.length - left.length;
      seqs.push(...left.map(({ seq }) => seq));
      if (seqs.length >= limit) break;
    }
    if (seqs.length === 0) return [];
    return await this.read(this.db.knex('digital_devices as f').whereRaw(organizationBeside('f'), [organizationId]).whereIn('f.seq', seqs.slice(0, limit)).select('f.seq'));
  }

  /** How many devices inside the filter lets through; exact. */
  async total(organizationId: string, filter: DeviceFilter): Promise<number> {
    if (await this.isFew(organizationId)) return await countOf(this.few(organizationId, filter, BEFORE_ALL));
    if (!filter.folded && filter.lastSeenBefore === undefined) return (await this.bound(organizationId)) + (await this.namedElsewhere(organizationId));
    let total = 0;
    for await (const found of this.walk(organizationId, filter, BEFORE_ALL)) total += found.length;
    return total;
  }

  private async isFew(organizationId: string): Promise<boolean> {
    return this.connectionIds.length === 0 || (await this.bound(organizationId)) <= FEW;
  }

  /** How many devices are bound to the connections of the key. */
  private async bound(organizationId: string): Promise<number> {
    const counts = await this.counters.boundTo(organizationId, this.connectionIds);
    return [...counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** How many devices the key names that are bound to none of its connections. */
  private async namedElsewhere(organizationId: string): Promise<number> {
    if (this.ids.length === 0) return 0;
    const query = this.named(organizationId).leftJoin('physical_devices as p', 'p.device_id', 'd.id');
    return await countOf(query.where((elsewhere) => void elsewhere.whereNull('p.connection_id').orWhereNotIn('p.connection_id', this.connectionIds)));
  }

  /** The seq of all devices `f` inside, behind a place. */
  private few(organizationId: string, filter: DeviceFilter, after: CreatedPosition): Knex.QueryBuilder {
    const { knex } = this.db;
    const columns = ['d.seq', 'd.created_at', 'd.id'];
    const bound = knex('physical_devices as b').where('b.organization_id', organizationId).whereIn('b.connection_id', this.connectionIds).join('digital_devices as d', 'd.id', 'b.device_id');
    const inside = narrowed(this.named(organizationId), filter).select(columns);
    if (this.connectionIds.length > 0) void inside.union([narrowed(bound, filter).select(columns)]);
    return knex.from(inside.as('f')).select('f.seq').whereRaw('(f.created_at, f.id) < (?, ?)', [after.createdAt, after.id]);
  }

  private named(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('digital_devices as d').whereRaw(organizationBeside('d'), [organizationId]).whereIn('d.id', this.ids);
  }

  /** What is inside of each stretch of the list of all devices, behind a place; ends with the list. */
  private async *walk(organizationId: string, { folded, lastSeenBefore = Infinity }: DeviceFilter, after: CreatedPosition): AsyncGenerator<readonly Passed[]> {
    const { ids, connectionIds } = this.reach;
    for (let from: CreatedPosition | undefined = after; from; ) {
      const passed: Passed[] = await this.db.all<Passed>(WALK, [organizationId, from.createdAt, from.id, STRETCH]);
      // Not in SQL: with a thousand ids a statement takes longer to read than these devices.
      yield passed.filter((device) => (ids.has(device.id) || connectionIds.has(device.connectionId ?? '')) && device.seenAt < lastSeenBefore && device.name.includes(folded));
      from = passed.length < STRETCH ? undefined : passed.at(-1);
      await setImmediate();
    }
  }

  private async read(page: Knex.QueryBuilder): Promise<ListedDevice[]> {
    const { knex, dialect } = this.db;
    const rows = await knex
      .select<ListedRow[]>(knex.raw(listed(dialect)))
      .from(page.as('page'))
      .join('digital_devices as d', 'd.seq', 'page.seq')
      .leftJoin('physical_devices as p', 'p.device_id', 'd.id')
      .orderBy(newestFirst('d'));
    return rows.map(listedFromRow);
  }
}

/** With the bare column SQLite would rather read all devices of the organization than look for many by their ids. */
function organizationBeside(table: string): string {
  return `${table}.organization_id || '' = ?`;
}

/** Without the index of names: what is searched are few. */
function narrowed(query: Knex.QueryBuilder, { folded, lastSeenBefore }: DeviceFilter): Knex.QueryBuilder {
  if (folded) void query.whereRaw("replace(d.name_folded, ?, '') <> d.name_folded", [folded]);
  return lastSeenBefore === undefined ? query : query.whereRaw(`${SEEN_AT} < ?`, [lastSeenBefore]);
}

async function countOf(query: Knex.QueryBuilder): Promise<number> {
  const [row] = (await query.clearSelect().count({ total: '*' })) as { total: number }[];
  return row?.total ?? 0;
}
