import { GatewayError } from '../gatewayError';
import { type CommandStage, type GatewayStore, type KeptCommand, type QueuedUplink, REMEMBERED_COMMANDS, type StoreChange, type StoreIdentity } from './gatewayStore';
import { type KeptIdentity, newIdentity, requireSame } from './storeIdentity';
import { UplinkRow } from './uplinkRow';

const NOTHING = new Uint8Array(0);
const STAGES: readonly CommandStage[] = ['received', 'started', 'ended', 'acknowledged'];

/**
 * A store that is lost with the process: the server is told so, and ends what was under way as `unconfirmed` after a restart. What a stopped gateway
 * left in it is there for the next one that is started with it in the same process.
 */
export function memoryStore(): GatewayStore {
  return new MemoryStore();
}

class MemoryStore implements GatewayStore {
  readonly isDurable = false;
  private identity: KeptIdentity | undefined;
  private isOpen = false;
  private readonly commands = new Map<string, KeptCommand>();
  private readonly acknowledged = new Map<string, KeptCommand>();
  private readonly uplinks = new UplinkRow();

  open(identity: StoreIdentity): { readonly gatewayId: string } {
    if (this.isOpen) throw new GatewayError('store_in_use', 'this memory store is used by another gateway of this process; give each gateway a store of its own');
    if (this.identity) requireSame('this memory store', this.identity, identity);
    else this.identity = newIdentity(identity);
    this.isOpen = true;
    return { gatewayId: this.identity.gatewayId };
  }

  openCommands(): KeptCommand[] {
    return [...this.commands.values()];
  }

  findCommand(executionId: string): KeptCommand | undefined {
    return this.commands.get(executionId) ?? this.acknowledged.get(executionId);
  }

  uplinksAfter(position: number, most: number): QueuedUplink[] {
    return this.uplinks.after(position, most);
  }

  get uplinkCount(): number {
    return this.uplinks.count;
  }

  get uplinkBytes(): number {
    return this.uplinks.bytes;
  }

  apply(changes: readonly StoreChange[]): void {
    if (!this.isOpen) throw new GatewayError('store_failed', 'the store is closed');
    for (const change of changes) this.make(change);
  }

  close(): void {
    this.isOpen = false;
  }

  private make(change: StoreChange): void {
    switch (change.kind) {
      case 'command':
        return this.keep(change.command);
      case 'command_acknowledged':
        return this.acknowledge(change.executionId);
      case 'uplink':
        return this.uplinks.add(change.uplink.uplinkId, change.uplink.message);
      case 'uplink_acknowledged':
        return this.uplinks.remove(change.uplinkId);
    }
  }

  private keep(command: KeptCommand): void {
    const known = this.findCommand(command.executionId);
    if (!known || STAGES.indexOf(command.stage) > STAGES.indexOf(known.stage)) this.commands.set(command.executionId, command);
  }

  private acknowledge(executionId: string): void {
    const command = this.commands.get(executionId);
    if (!command) return;
    this.commands.delete(executionId);
    this.acknowledged.set(executionId, { ...command, stage: 'acknowledged', message: NOTHING, expiresAtUptimeMs: 0, machineStart: '', text: '' });
    if (this.acknowledged.size > REMEMBERED_COMMANDS) this.acknowledged.delete(this.acknowledged.keys().next().value as string);
  }
}
