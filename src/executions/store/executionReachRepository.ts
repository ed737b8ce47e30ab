import { setImmediate as othersTurn } from 'node:timers/promises';
import type { Db } from '../../database';
import { type Page, pageOf } from '../../kernel/pages';
import { isDeviceInside, type Reach } from '../../kernel/reach';
import type { ListedExecution } from '../execution';
import { type ListedRow, listedFromRow } from './executionRow';
import { MOST_LISTED, statements } from './executionStatements';
import { type ExecutionList, NEWEST, type UpdatedPosition } from './executionViewRepository';

interface BoundRow {
  readonly device_id: string;
  /** Null: it was deleted. */
  readonly command_id: string | null;
  readonly connection_id: string | null;
}

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

  /** Whether its device is inside (a deleted one: where the key names it), and its command is there and inside; one that is not there is outside. */
  async isInside(organizationId: string, { devices, commands }: Reach, id: string): Promise<boolean> {
    const [row] = await this.db.all<BoundRow>(statements.bound, [organizationId, id]);
    if (!row || !isDeviceInside(devices, row.device_id, row.connection_id)) return false;
    return !commands || (row.command_id !== null && commands.has(row.command_id));
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
