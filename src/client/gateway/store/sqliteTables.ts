import type { Database, Statement } from 'better-sqlite3';
import {
  type CommandStage,
  type StoredCommand,
  PAGE_BYTES,
  type QueuedUplink,
  REMEMBERED_COMMANDS,
  type StoreChange,
} from './gatewayStore';
import { SQL } from './sqliteSchema';

interface CommandRow {
  readonly execution_id: string;
  readonly stage: number;
  readonly message: Uint8Array;
  readonly expires_at_uptime_ms: number;
  readonly machine_start: string;
  readonly time: number;
  readonly result: number;
  readonly code: string;
  readonly text: string;
}

type AcknowledgedRow = Pick<CommandRow, 'execution_id' | 'time' | 'result' | 'code'>;

/**
 * The current counts, and the last used position of each table. Positions are sequence numbers that order the rows. The
 * counters are restored if a transaction fails.
 */
interface Counters {
  uplinkCount: number;
  uplinkBytes: number;
  lastUplinkPosition: number;
  lastCommandPosition: number;
  lastAcknowledgedPosition: number;
}

/** The values of the column `stage`; never renumbered. */
const STAGES: readonly CommandStage[] = ['received', 'started', 'ended'];
const EMPTY_MESSAGE = new Uint8Array(0);

/** The tables of an open store, with prepared statements. Throws the errors of SQLite. */
export class SqliteTables {
  private readonly statements: Readonly<Record<keyof typeof SQL, Statement>>;
  private counters: Counters;

  constructor(private readonly database: Database) {
    const prepared = Object.entries(SQL).map(([name, sql]) => [name, database.prepare(sql)]);
    this.statements = Object.fromEntries(prepared) as Record<keyof typeof SQL, Statement>;
    this.counters = this.statements.loadCounters.get() as Counters;
  }

  get uplinkCount(): number {
    return this.counters.uplinkCount;
  }

  get uplinkBytes(): number {
    return this.counters.uplinkBytes;
  }

  /** The free bytes inside the file. */
  get reusableBytes(): number {
    return (
      (this.database.pragma('freelist_count', { simple: true }) as number) *
      (this.database.pragma('page_size', { simple: true }) as number)
    );
  }

  openCommands(): StoredCommand[] {
    return (this.statements.openCommands.all() as CommandRow[]).map(commandFromRow);
  }

  /** Finds a command, even an acknowledged one; undefined: it is not in the store. */
  findCommand(executionId: string): StoredCommand | undefined {
    const row = this.statements.findCommand.get(executionId) as CommandRow | undefined;
    if (row) return commandFromRow(row);
    const acknowledged = this.statements.findAcknowledged.get(executionId) as AcknowledgedRow | undefined;
    return acknowledged && commandFromAcknowledged(acknowledged);
  }

  /** Lists uplinks as `GatewayStore.uplinksAfter` does: at most `max`, and about PAGE_BYTES. */
  uplinksAfter(position: number, max: number): QueuedUplink[] {
    const uplinks: QueuedUplink[] = [];
    let bytes = 0;
    for (const uplink of this.statements.uplinksAfter.iterate(position, max) as IterableIterator<QueuedUplink>) {
      uplinks.push(uplink);
      bytes += uplink.message.length;
      if (bytes >= PAGE_BYTES) break;
    }
    return uplinks;
  }

  /** Applies all changes or none. */
  apply(changes: readonly StoreChange[]): void {
    const before = { ...this.counters };
    try {
      this.database.exec('begin immediate');
      for (const change of changes) this.applyChange(change);
      this.database.exec('commit');
    } catch (error) {
      this.counters = before;
      // Some errors have already rolled back the transaction.
      if (this.database.inTransaction) this.database.exec('rollback');
      throw error;
    }
  }

  private applyChange(change: StoreChange): void {
    switch (change.kind) {
      case 'command':
        this.upsertCommand(change.command);
        break;
      case 'command_acknowledged':
        this.acknowledgeCommand(change.executionId);
        break;
      case 'uplink':
        this.insertUplink(change.uplink.uplinkId, change.uplink.message);
        break;
      case 'uplink_acknowledged':
        this.removeUplink(change.uplinkId);
        break;
    }
  }

  /**
   * Inserts a command, or moves a stored one to a later stage. A command at the same or a later stage, and an
   * acknowledged one, stays unchanged. Each call uses a new position, so positions may have gaps.
   */
  private upsertCommand(command: StoredCommand): void {
    this.counters.lastCommandPosition += 1;
    this.statements.upsertCommand.run({
      ...command,
      stage: STAGES.indexOf(command.stage),
      position: this.counters.lastCommandPosition,
    });
  }

  /**
   * Moves the id and the result of a command to the acknowledged commands, and removes all but the newest
   * REMEMBERED_COMMANDS of these.
   */
  private acknowledgeCommand(executionId: string): void {
    const position = this.counters.lastAcknowledgedPosition + 1;
    if (this.statements.acknowledgeCommand.run(position, executionId).changes === 0) return;
    this.counters.lastAcknowledgedPosition = position; // Without gaps, so that positions count the newest commands.
    this.statements.removeCommand.run(executionId);
    this.statements.forgetAcknowledged.run(position - REMEMBERED_COMMANDS);
  }

  /**
   * Inserts an uplink at the end of the queue, and counts it; does nothing if an uplink with this id is stored. The
   * last position is a sequence number that is also used up by an uplink that is not inserted, so that no position
   * occurs twice.
   */
  private insertUplink(uplinkId: string, message: Uint8Array): void {
    this.counters.lastUplinkPosition += 1;
    if (this.statements.insertUplink.run(this.counters.lastUplinkPosition, uplinkId, message).changes === 0) return;
    this.counters.uplinkCount += 1;
    this.counters.uplinkBytes += message.length;
  }

  /** Removes an uplink if it is stored, and subtracts it from the counters. */
  private removeUplink(uplinkId: string): void {
    const removed = this.statements.removeUplink.get(uplinkId) as { readonly bytes: number } | undefined;
    if (!removed) return;
    this.counters.uplinkCount -= 1;
    this.counters.uplinkBytes -= removed.bytes;
  }
}

function commandFromRow(row: CommandRow): StoredCommand {
  return {
    executionId: row.execution_id,
    stage: STAGES[row.stage] as CommandStage,
    message: row.message,
    expiresAtUptimeMs: row.expires_at_uptime_ms,
    machineStart: row.machine_start,
    time: row.time,
    result: row.result,
    code: row.code,
    text: row.text,
  };
}

/** Creates the StoredCommand of an acknowledged command, of which only the id and the result are left. */
function commandFromAcknowledged({ execution_id: executionId, time, result, code }: AcknowledgedRow): StoredCommand {
  return {
    executionId,
    stage: 'acknowledged',
    message: EMPTY_MESSAGE,
    expiresAtUptimeMs: 0,
    machineStart: '',
    time,
    result,
    code,
    text: '',
  };
}
