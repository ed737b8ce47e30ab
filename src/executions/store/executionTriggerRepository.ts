import type { Db, PreparedStatement } from '../../database';

/** A trigger id that a caller sent for a command of a device. */
export interface ExecutionTrigger {
  readonly organizationId: string;
  readonly deviceId: string;
  readonly commandId: string;
  readonly triggerKey: string;
}

/** The stored response to a request with a trigger id. */
interface TriggerResult {
  readonly executionId: string;
  /** SHA-256 (hex) of the canonical JSON (RFC 8785) of the received params; empty if they were not valid JSON. */
  readonly paramsHash: string;
  /** The trigger id can be used again from this time. Unix milliseconds. */
  readonly expiresAt: number;
}

const KEY_COLUMNS = ['organization_id', 'device_id', 'command_id', 'trigger_key'];

/** Creates a statement whose SQL is the same in all dialects. */
function createStatement(name: string, sql: string): PreparedStatement {
  return { name: `executionTriggers.${name}`, sql: () => sql };
}

/** The values are in the order of the `?`. */
const triggerStatements = {
  find: createStatement(
    'find',
    `select execution_id, params_hash, expires_at from execution_triggers
      where organization_id = ? and device_id = ? and command_id = ? and trigger_key = ?`,
  ),
  // An expired trigger id is reused.
  save: createStatement(
    'save',
    `insert into execution_triggers (${KEY_COLUMNS.join(', ')}, execution_id, params_hash, expires_at) values (?, ?, ?, ?, ?, ?, ?)
      on conflict (${KEY_COLUMNS.join(', ')}) do update
      set execution_id = excluded.execution_id, params_hash = excluded.params_hash, expires_at = excluded.expires_at`,
  ),
  // Across all organizations, by an index.
  deleteExpired: createStatement(
    'deleteExpired',
    `delete from execution_triggers where (${KEY_COLUMNS.join(', ')}) in
      (select ${KEY_COLUMNS.join(', ')} from execution_triggers where expires_at <= ? order by expires_at limit ?) returning trigger_key`,
  ),
  deleteSome: createStatement(
    'deleteSome',
    `delete from execution_triggers where (${KEY_COLUMNS.join(', ')}) in
      (select ${KEY_COLUMNS.join(', ')} from execution_triggers where organization_id = ? limit ?) returning trigger_key`,
  ),
} as const;

/** Stores the trigger ids of callers with their responses. Assumes a caller who may act in the organization. */
export class ExecutionTriggerRepository {
  constructor(private readonly db: Db) {}

  /** Returns the stored response; undefined if there is none. An expired response may still be stored. */
  async find({
    organizationId,
    deviceId,
    commandId,
    triggerKey,
  }: ExecutionTrigger): Promise<TriggerResult | undefined> {
    const key = [organizationId, deviceId, commandId, triggerKey];
    const [row] = await this.db.all<{ execution_id: string; params_hash: string; expires_at: number }>(
      triggerStatements.find,
      key,
    );
    return row && { executionId: row.execution_id, paramsHash: row.params_hash, expiresAt: row.expires_at };
  }

  /** Call only inside the transaction that creates the response. */
  async save(trigger: ExecutionTrigger, { executionId, paramsHash, expiresAt }: TriggerResult): Promise<void> {
    const { organizationId, deviceId, commandId, triggerKey } = trigger;
    const key = [organizationId, deviceId, commandId, triggerKey];
    await this.db.all(triggerStatements.save, [...key, executionId, paramsHash, expiresAt]);
  }

  /**
   * Deletes at most `limit` trigger ids that expired at or before `now` (Unix milliseconds). Returns how many were
   * deleted.
   */
  async deleteExpired(now: number, limit: number): Promise<number> {
    return (await this.db.all(triggerStatements.deleteExpired, [now, limit])).length;
  }

  /** Deletes at most `limit` trigger ids of a deleted organization. Returns how many were deleted. */
  async deleteBatch(organizationId: string, limit: number): Promise<number> {
    return (await this.db.all(triggerStatements.deleteSome, [organizationId, limit])).length;
  }
}
