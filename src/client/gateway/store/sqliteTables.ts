import type { Database, Statement } from 'better-sqlite3';
import { type CommandStage, type KeptCommand, PAGE_BYTES, type QueuedUplink, REMEMBERED_COMMANDS, type StoreChange } from './gatewayStore';
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

/** How far the numbering came; it goes back with a transaction that fails. */
interface Counts {
  uplinks: number;
  uplinkBytes: number;
  lastUplink: number;
  lastCommand: number;
  lastAcknowledged: number;
}

/** As they stand in the column `stage`; never renumbered. */
const STAGES: readonly CommandStage[] = ['received', 'started', 'ended'];
const NOTHING = new Uint8Array(0);

/** The tables of a store that is open, with their statements prepared. Throws the engine's errors. */
export class SqliteTables {
  private readonly statements: Readonly<Record<keyof typeof SQL, Statement>>;
  private counts: Counts;

  constructor(private readonly database: Database) {
    const prepared = Object.entries(SQL).map(([name, sql]) => [name, database.prepare(sql)]);
    this.statements = Object.fromEntries(prepared) as Record<keyof typeof SQL, Statement>;
    this.counts = this.statements.counts.get() as Counts;
  }

  get uplinkCount(): number {
    return this.counts.uplinks;
  }

  get uplinkBytes(): number {
    return this.counts.uplinkBytes;
  }

  /** What is free inside of the file. */
  get reusableBytes(): number {
    return (this.database.pragma('freelist_count', { simple: true }) as number) * (this.database.pragma('page_size', { simple: true }) as number);
  }

  openCommands(): KeptCommand[] {
    return (this.statements.openCommands.all() as CommandRow[]).map(commandFromRow);
  }

  findCommand(executionId: string): KeptCommand | undefined {
    const row = this.statements.findCommand.get(executionId) as CommandRow | undefined;
    if (row) return commandFromRow(row);
    const acknowledged = this.statements.findAcknowledged.get(executionId) as AcknowledgedRow | undefined;
    return acknowledged && commandFromAcknowledged(acknowledged);
  }

  uplinksAfter(position: number, most: number): QueuedUplink[] {
    const found: QueuedUplink[] = [];
    let bytes = 0;
    for (const uplink of this.statements.uplinksAfter.iterate(position, most) as IterableIterator<QueuedUplink>) {
      found.push(uplink);
      bytes += uplink.message.length;
      if (bytes >= PAGE_BYTES) break;
    }
    return found;
  }

  /** All of the changes or none. */
  apply(changes: readonly StoreChange[]): void {
    const before = { ...this.counts };
    try {
      this.database.exec('begin immediate');
      for (const change of changes) this.make(change);
      this.database.exec('commit');
    } catch (error) {
      this.counts = before;
      if (this.database.inTransaction) this.database.exec('rollback'); // some errors have rolled it back themselves
      throw error;
    }
  }

  private make(change: StoreChange): void {
    switch (change.kind) {
      case 'command':
        return this.keepCommand(change.command);
      case 'command_acknowledged':
        return this.acknowledgeCommand(change.executionId);
      case 'uplink':
        return this.keepUplink(change.uplink.uplinkId, change.uplink.message);
      case 'uplink_acknowledged':
        return this.removeUplink(change.uplinkId);
    }
  }

  private keepCommand(command: KeptCommand): void {
    this.counts.lastCommand += 1;
    this.statements.keepCommand.run({ ...command, stage: STAGES.indexOf(command.stage), position: this.counts.lastCommand });
  }

  private acknowledgeCommand(executionId: string): void {
    const position = this.counts.lastAcknowledged + 1;
    if (this.statements.acknowledgeCommand.run(position, executionId).changes === 0) return;
    this.counts.lastAcknowledged = position; // without gaps, so that the newest are counted by it
    this.statements.removeCommand.run(executionId);
    this.statements.forgetAcknowledged.run(position - REMEMBERED_COMMANDS);
  }

  private keepUplink(uplinkId: string, message: Uint8Array): void {
    this.counts.lastUplink += 1;
    if (this.statements.keepUplink.run(this.counts.lastUplink, uplinkId, message).changes === 0) return;
    this.counts.uplinks += 1;
    this.counts.uplinkBytes += message.length;
  }

  private removeUplink(uplinkId: string): void {
    const removed = this.statements.removeUplink.get(uplinkId) as { readonly bytes: number } | undefined;
    if (!removed) return;
    this.counts.uplinks -= 1;
    this.counts.uplinkBytes -= removed.bytes;
  }
}

function commandFromRow(row: CommandRow): KeptCommand {
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

function commandFromAcknowledged({ execution_id: executionId, time, result, code }: AcknowledgedRow): KeptCommand {
  return { executionId, stage: 'acknowledged', message: NOTHING, expiresAtUptimeMs: 0, machineStart: '', time, result, code, text: '' };
}
