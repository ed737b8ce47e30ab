import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Db } from '../../database';
import { type Page, getPage } from '../../kernel/pages';
import { isDeviceInScope, type ResourceScope } from '../../kernel/resourceScope';
import type { ListedExecution } from '../execution';
import { type ListedRow, listedFromRow } from './executionRow';
import { MAX_PAGE_SIZE, statements } from './executionStatements';
import { type ExecutionList, LIST_START, type UpdatedPosition } from './executionViewRepository';

interface BoundRow {
  readonly device_id: string;
  /** Null: the command was deleted. */
  readonly command_id: string | null;
  readonly connection_id: string | null;
}

interface WalkedRow {
  readonly id: string;
  readonly updated_at: number;
  readonly command_id: string | null;
}

// The walk over executions that the key may not access starts with small steps, because it is often short. The largest
// step takes a few milliseconds.
const MIN_STEP_ROWS = 250;
const MAX_STEP_ROWS = 2000;

/**
 * Checks which executions are currently accessible to a restricted key. Assumes a caller who may act in
 * `organizationId`.
 */
export class ExecutionScopeRepository {
  constructor(private readonly db: Db) {}

  /**
   * Whether the key may access both the device and the command of an execution. A deleted device is accessible only if
   * the key names it; a deleted command and a missing execution are not accessible.
   */
  async isInScope(organizationId: string, { devices, commands }: ResourceScope, id: string): Promise<boolean> {
    const [row] = await this.db.all<BoundRow>(statements.bound, [organizationId, id]);
    if (!row || !isDeviceInScope(devices, row.device_id, row.connection_id)) return false;
    return !commands || (row.command_id !== null && commands.has(row.command_id));
  }

  /**
   * Lists the executions of these commands of a device, most recently updated first. Executions in between are walked
   * in batches, so that other work runs in between.
   */
  async list(
    { organizationId, deviceId, size, after = LIST_START }: ExecutionList,
    commands: ReadonlySet<string>,
  ): Promise<Page<ListedExecution, UpdatedPosition>> {
    const commandIdsOfDevice = await this.listCommands(organizationId, deviceId, commands);
    const matchingRows: WalkedRow[] = [];
    let position = after;
    for (
      let stepRows = MIN_STEP_ROWS;
      commandIdsOfDevice.size > 0 && matchingRows.length <= size; // one more than a page, to know whether one follows
      stepRows = Math.min(stepRows * 2, MAX_STEP_ROWS)
    ) {
      const rows = await this.db.all<WalkedRow>(statements.walk, [
        organizationId,
        deviceId,
        position.updatedAt,
        position.id,
        stepRows,
      ]);
      matchingRows.push(...rows.filter(({ command_id: id }) => id !== null && commandIdsOfDevice.has(id)));
      const last = rows.at(-1);
      if (!last || rows.length < stepRows) break;
      position = { updatedAt: last.updated_at, id: last.id };
      await yieldToEventLoop();
    }
    const { items, next } = getPage(matchingRows, size, (row): UpdatedPosition => ({
      updatedAt: row.updated_at,
      id: row.id,
    }));
    const shown = await this.findListed(
      organizationId,
      items.map(({ id }) => id),
    );
    return { items: items.flatMap(({ id }) => shown.get(id) ?? []), next };
  }

  /** Reads executions by id. The statement has a fixed number of parameters, so the first id is repeated. */
  private async findListed(organizationId: string, ids: readonly string[]): Promise<Map<string, ListedExecution>> {
    const padding = Array.from({ length: MAX_PAGE_SIZE - ids.length }, () => ids[0] ?? '');
    const rows =
      ids.length === 0 ? [] : await this.db.all<ListedRow>(statements.listed, [organizationId, ...ids, ...padding]);
    return new Map(rows.map((row) => [row.id, listedFromRow(row)]));
  }

  /** Returns which of these commands the device has: at most some hundred, however many a key names. */
  private async listCommands(
    organizationId: string,
    deviceId: string,
    ids: ReadonlySet<string>,
  ): Promise<ReadonlySet<string>> {
    const rows: { id: string }[] = await this.db
      .knex('commands as c')
      .where('c.organization_id', organizationId)
      .where('c.device_id', deviceId)
      .select('c.id');
    return new Set(rows.map(({ id }) => id).filter((id) => ids.has(id)));
  }
}
