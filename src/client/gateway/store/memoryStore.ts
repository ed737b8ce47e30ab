import { GatewayError } from '../gatewayError';
import {
  type CommandStage,
  type GatewayStore,
  type StoredCommand,
  type QueuedUplink,
  REMEMBERED_COMMANDS,
  type StoreChange,
  type StoreIdentity,
} from './gatewayStore';
import { type StoredIdentity, createIdentity, assertSameIdentity } from './storeIdentity';
import { UplinkList } from './uplinkList';

const EMPTY_MESSAGE = new Uint8Array(0);
// In the order in which a command passes them.
const STAGES: readonly CommandStage[] = ['received', 'started', 'ended', 'acknowledged'];

/**
 * Creates a store in memory, which is lost when the process ends. The server is informed of that and finishes running
 * commands as `unconfirmed` after a restart. The contents remain for the next gateway that is started with the same
 * store in the same process.
 */
export function memoryStore(): GatewayStore {
  return new MemoryStore();
}

class MemoryStore implements GatewayStore {
  readonly isDurable = false;
  private identity: StoredIdentity | undefined;
  private isOpen = false;
  private readonly commands = new Map<string, StoredCommand>();
  private readonly acknowledged = new Map<string, StoredCommand>();
  private readonly uplinks = new UplinkList();

  /** Marks the store as used and compares its identity. Throws `store_in_use`, `store_of_another`. */
  open(identity: StoreIdentity): { readonly gatewayId: string } {
    if (this.isOpen) {
      throw new GatewayError(
        'store_in_use',
        'this memory store is used by another gateway of this process; use a separate store for each gateway',
      );
    }
    if (this.identity) assertSameIdentity('this memory store', this.identity, identity);
    else this.identity = createIdentity(identity);
    this.isOpen = true;
    return { gatewayId: this.identity.gatewayId };
  }

  openCommands(): StoredCommand[] {
    return [...this.commands.values()];
  }

  findCommand(executionId: string): StoredCommand | undefined {
    return this.commands.get(executionId) ?? this.acknowledged.get(executionId);
  }

  uplinksAfter(position: number, max: number): QueuedUplink[] {
    return this.uplinks.listAfter(position, max);
  }

  get uplinkCount(): number {
    return this.uplinks.count;
  }

  get uplinkBytes(): number {
    return this.uplinks.bytes;
  }

  apply(changes: readonly StoreChange[]): void {
    if (!this.isOpen) throw new GatewayError('store_failed', 'the store is closed');
    for (const change of changes) this.applyChange(change);
  }

  close(): void {
    this.isOpen = false;
  }

  private applyChange(change: StoreChange): void {
    switch (change.kind) {
      case 'command':
        this.storeCommand(change.command);
        break;
      case 'command_acknowledged':
        this.acknowledge(change.executionId);
        break;
      case 'uplink':
        this.uplinks.add(change.uplink.uplinkId, change.uplink.message);
        break;
      case 'uplink_acknowledged':
        this.uplinks.remove(change.uplinkId);
        break;
    }
  }

  /** Stores a command, unless the stored one is at the same or a later stage. */
  private storeCommand(command: StoredCommand): void {
    const known = this.findCommand(command.executionId);
    if (!known || STAGES.indexOf(command.stage) > STAGES.indexOf(known.stage))
      this.commands.set(command.executionId, command);
  }

  /** Keeps only the id and the result of a command, for the newest REMEMBERED_COMMANDS. */
  private acknowledge(executionId: string): void {
    const command = this.commands.get(executionId);
    if (!command) return;
    this.commands.delete(executionId);
    this.acknowledged.set(executionId, {
      ...command,
      stage: 'acknowledged',
      message: EMPTY_MESSAGE,
      expiresAtUptimeMs: 0,
      machineStart: '',
      text: '',
    });
    if (this.acknowledged.size <= REMEMBERED_COMMANDS) return;
    const [oldestId] = this.acknowledged.keys();
    this.acknowledged.delete(oldestId as string);
  }
}
