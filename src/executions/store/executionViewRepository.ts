import type { Db } from '../../database';
import { notFound } from '../../kernel/errors';
import { type Page, getPage } from '../../kernel/pages';
import type { ListedExecution, ShownExecution } from '../execution';
import { type ListedRow, type ShownRow, listedFromRow, shownFromRow } from './executionRow';
import { statements } from './executionStatements';

/** A position in a list ordered by most recent update, with the id as tie-break. */
export interface UpdatedPosition {
  readonly updatedAt: number;
  readonly id: string;
}

/** The page of a device's executions to read; `after` undefined: the first page. */
export interface ExecutionList {
  readonly organizationId: string;
  readonly deviceId: string;
  readonly size: number;
  readonly after: UpdatedPosition | undefined;
}

/** The position before the first item. */
export const LIST_START: UpdatedPosition = { updatedAt: Number.MAX_SAFE_INTEGER, id: '' };

/**
 * Reads executions for display: `commandId` is undefined once the command is deleted, which is checked when reading.
 * Assumes a caller who may act in `organizationId`.
 */
export class ExecutionViewRepository {
  constructor(private readonly db: Db) {}

  /** Throws `execution_not_found`. */
  async get(organizationId: string, id: string): Promise<ShownExecution> {
    const execution = await this.find(organizationId, id);
    if (!execution) throw notFound('execution', id);
    return execution;
  }

  /** Returns the existing executions of these ids, by id. */
  async findAll(organizationId: string, ids: readonly string[]): Promise<Map<string, ShownExecution>> {
    const found = new Map<string, ShownExecution>();
    for (const id of new Set(ids)) {
      const execution = await this.find(organizationId, id);
      if (execution) found.set(id, execution);
    }
    return found;
  }

  /** Lists the executions of a device, most recently updated first. */
  async list({
    organizationId,
    deviceId,
    size,
    after = LIST_START,
  }: ExecutionList): Promise<Page<ListedExecution, UpdatedPosition>> {
    const rows = await this.db.all<ListedRow>(statements.page, [
      organizationId,
      deviceId,
      after.updatedAt,
      after.id,
      size + 1,
    ]);
    return getPage(rows.map(listedFromRow), size, ({ updatedAt, id }) => ({ updatedAt, id }));
  }

  private async find(organizationId: string, id: string): Promise<ShownExecution | undefined> {
    const [row] = await this.db.all<ShownRow>(statements.view, [organizationId, id]);
    return row && shownFromRow(row);
  }
}
