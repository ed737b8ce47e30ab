import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CommandStage, GatewayError, KeptCommand, StoreChange } from '../../../src/client/gateway';

/** The connection and gateway of these tests. */
export const IDENTITY = { connectionId: 'con_1', gatewayId: 'gw-1' } as const;

const folders: string[] = [];

/** A path of a store in a folder of its own. */
export function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-store-'));
  folders.push(folder);
  return join(folder, 'gateway.db');
}

/** Removes what `newFile` made. */
export function removeFiles(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** A command at a stage; its times and texts tell it from others. */
export function command(executionId: string, stage: CommandStage = 'received', other: Partial<KeptCommand> = {}): KeptCommand {
  return { executionId, stage, message: Buffer.from(`command ${executionId}`), expiresAtUptimeMs: 60_000.5, machineStart: 'start-1', time: 1_700_000_000_000, result: 0, code: '', text: '', ...other };
}

/** The change that keeps a command. */
export function keep(executionId: string, stage: CommandStage = 'received', other: Partial<KeptCommand> = {}): StoreChange {
  return { kind: 'command', command: command(executionId, stage, other) };
}

/** The change that keeps an uplink. */
export function uplink(uplinkId: string, bytes = 40): StoreChange {
  return { kind: 'uplink', uplink: { uplinkId, message: Buffer.alloc(bytes, uplinkId) } };
}

export const acknowledge = (executionId: string): StoreChange => ({ kind: 'command_acknowledged', executionId });
export const forget = (uplinkId: string): StoreChange => ({ kind: 'uplink_acknowledged', uplinkId });

/** The GatewayError that a call throws; fails where it throws none. */
export function thrownBy(call: () => unknown): GatewayError {
  try {
    call();
  } catch (error) {
    return error as GatewayError;
  }
  throw new Error('it threw nothing');
}
