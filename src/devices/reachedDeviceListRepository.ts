import { setImmediate } from 'node:timers/promises';
import type { Knex } from 'knex';
import { whereDeviceInside, type Db } from '../database';
import type { CreatedPosition } from '../kernel/pages';
import type { DeviceReach } from '../kernel/reach';
import type { ListedDevice } from './device';
import { DeviceCounterRepository } from './deviceCounterRepository';
import { BEFORE_ALL, deviceListStatements, listed, listedFromRow, newestFirst, SEEN_AT, STRETCH, type DeviceFilter, type DeviceSlice, type ListedRow } from './deviceListRepository';

/** So many devices on the connections of a key are read and sorted at once; where there are more, the list is walked instead. */
const FEW = 2000;

interface Place extends CreatedPosition {
  readonly seq: number;
}

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
  private async *walk(organizationId: string, filter: DeviceFilter, after: CreatedPosition): AsyncGenerator<readonly Place[]> {
    let from: CreatedPosition | undefined = after;
    while (from) {
      const [end]: CreatedPosition[] = await this.db.all<CreatedPosition>(deviceListStatements.stretch, [organizationId, from.createdAt, from.id, STRETCH]);
      yield await this.insideBetween(organizationId, filter, from, end);
      from = end;
      await setImmediate();
    }
  }

  /** Behind `from`, up to `end` with it; undefined: the end of the list. */
  private async insideBetween(organizationId: string, filter: DeviceFilter, from: CreatedPosition, end: CreatedPosition | undefined): Promise<Place[]> {
    const query = this.db.knex('digital_devices as d').where('d.organization_id', organizationId).whereRaw('(d.created_at, d.id) < (?, ?)', [from.createdAt, from.id]);
    if (end) void query.whereRaw('(d.created_at, d.id) >= (?, ?)', [end.createdAt, end.id]);
    return await whereDeviceInside(narrowed(query, filter), 'd.id', organizationId, this.reach).orderBy(newestFirst('d')).select('d.seq', 'd.id', { createdAt: 'd.created_at' });
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

/** Without the index of names: what is searched are few, or a stretch of the list. */
function narrowed(query: Knex.QueryBuilder, { folded, lastSeenBefore }: DeviceFilter): Knex.QueryBuilder {
  if (folded) void query.whereRaw("replace(d.name_folded, ?, '') <> d.name_folded", [folded]);
  return lastSeenBefore === undefined ? query : query.whereRaw(`${SEEN_AT} < ?`, [lastSeenBefore]);
}

async function countOf(query: Knex.QueryBuilder): Promise<number> {
  const [row] = (await query.clearSelect().count({ total: '*' })) as { total: number }[];
  return row?.total ?? 0;
}
