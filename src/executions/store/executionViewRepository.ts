import type { Db } from '../../database';
import { notFound } from '../../kernel/errors';
import { type Page, pageOf } from '../../kernel/pages';
import type { ListedExecution, ShownExecution } from '../execution';
import { type ListedRow, type ShownRow, listedFromRow, shownFromRow } from './executionRow';
import { statements } from './executionStatements';

/** Position in a list that is ordered most recently updated first, with the id as tie-break. */
export interface UpdatedPosition {
  readonly updatedAt: number;
  readonly id: string;
}

/** Which page of a device's executions; `after` undefined: the first. */
export interface ExecutionList {
  readonly organizationId: string;
  readonly deviceId: string;
  readonly size: number;
  readonly after: UpdatedPosition | undefined;
}

/** Before the first. */
export const NEWEST: UpdatedPosition = { updatedAt: Number.MAX_SAFE_INTEGER, id: '' };

/**
 * Executions as they are shown: `commandId` is undefined once the command is deleted, which is found out when reading.
 * Assumes a caller allowed to act in `organizationId`.
 */
export class ExecutionViewRepository {
  constructor(private readonly db: Db) {}

  /** Throws `execution_not_found`. */
  async get(organizationId: string, id: string): Promise<ShownExecution> {
    const execution = await this.find(organizationId, id);
    if (!execution) throw notFound('execution', id);
    return execution;
  }

  /** Those of these executions that exist, by id. */
  async findAll(organizationId: string, ids: readonly string[]): Promise<Map<string, ShownExecution>> {
    const found = new Map<string, ShownExecution>();
    for (const id of new Set(ids)) {
      const execution = await this.find(organizationId, id);
      if (execution) found.set(id, execution);
    }
    return found;
  }

  /** The executions of a device, most recently updated first. */
  async list({ organizationId, deviceId, size, after = NEWEST }: ExecutionList): Promise<Page<ListedExecution, UpdatedPosition>> {
    const rows = await this.db.all<ListedRow>(statements.page, [organizationId, deviceId, after.updatedAt, after.id, size + 1]);
    return pageOf(rows.map(listedFromRow), size, ({ updatedAt, id }) => ({ updatedAt, id }));
  }

  private async find(organizationId: string, id: string): Promise<ShownExecution | undefined> {
    const [row] = await this.db.all<ShownRow>(statements.view, [organizationId, id]);
    return row && shownFromRow(row);
  }
}
