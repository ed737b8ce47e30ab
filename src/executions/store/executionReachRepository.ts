import { setImmediate as othersTurn } from 'node:timers/promises';
import { type Db, whereDeviceInside } from '../../database';
import { type Page, pageOf } from '../../kernel/pages';
import type { Reach } from '../../kernel/reach';
import type { ListedExecution } from '../execution';
import { type ListedRow, listedFromRow } from './executionRow';
import { MOST_LISTED, statements } from './executionStatements';
import { type ExecutionList, NEWEST, type UpdatedPosition } from './executionViewRepository';

interface WalkedRow {
  readonly id: string;
  readonly updated_at: number;
  readonly command_id: string | null;
}

// The walk through what a key does not reach begins small, because often enough it is short; the largest step takes a few milliseconds.
const FIRST_STEP = 250;
const LARGEST_STEP = 2000;

/** Which executions lie inside the reach of a limited key, now. Assumes a caller allowed to act in `organizationId`. */
export class ExecutionReachRepository {
  constructor(private readonly db: Db) {}

  /** Those of these executions whose device is inside (a deleted one: where the key names it), and whose command is there and inside. */
  async inside(organizationId: string, { devices, commands }: Reach, ids: readonly string[]): Promise<ReadonlySet<string>> {
    // With the bare column SQLite would rather read all executions of the organization than look for more than one id.
    const query = this.db.knex('executions as e').whereRaw("e.organization_id || '' = ?", organizationId).whereIn('e.id', [...ids]).select('e.id');
    // A key may name commands that are deleted since.
    if (commands) query.whereIn('e.command_id', (named) => void named.select('c.id').from('commands as c').where('c.organization_id', organizationId).whereIn('c.id', [...commands]));
    const rows: { id: string }[] = await whereDeviceInside(query, 'e.device_id', organizationId, devices);
    return new Set(rows.map(({ id }) => id));
  }

  /** The executions of these commands of a device, most recently updated first. What lies between them is walked through in steps, with a turn for others between. */
  async list({ organizationId, deviceId, size, after = NEWEST }: ExecutionList, commands: ReadonlySet<string>): Promise<Page<ListedExecution, UpdatedPosition>> {
    const there = await this.commandsOf(organizationId, deviceId, commands);
    const found: WalkedRow[] = [];
    let last = after;
    for (let step = FIRST_STEP; there.size > 0 && found.length <= size; step = Math.min(step * 2, LARGEST_STEP)) {
      const rows = await this.db.all<WalkedRow>(statements.walk, [organizationId, deviceId, last.updatedAt, last.id, step]);
      found.push(...rows.filter(({ command_id: id }) => id !== null && there.has(id)));
      const end = rows.at(-1);
      if (!end || rows.length < step) break;
      last = { updatedAt: end.updated_at, id: end.id };
      await othersTurn();
    }
    const { items, next } = pageOf(found, size, (row): UpdatedPosition => ({ updatedAt: row.updated_at, id: row.id }));
    const shown = await this.listed(organizationId, items.map(({ id }) => id));
    return { items: items.flatMap(({ id }) => shown.get(id) ?? []), next };
  }

  private async listed(organizationId: string, ids: readonly string[]): Promise<Map<string, ListedExecution>> {
    const unneeded = Array.from({ length: MOST_LISTED - ids.length }, () => ids[0] ?? '');
    const rows = ids.length === 0 ? [] : await this.db.all<ListedRow>(statements.listed, [organizationId, ...ids, ...unneeded]);
    return new Map(rows.map((row) => [row.id, listedFromRow(row)]));
  }

  /** Those of these commands that the device has: at most some hundred, however many a key names. */
  private async commandsOf(organizationId: string, deviceId: string, ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const rows: { id: string }[] = await this.db.knex('commands as c').where('c.organization_id', organizationId).where('c.device_id', deviceId).select('c.id');
    return new Set(rows.map(({ id }) => id).filter((id) => ids.has(id)));
  }
}
