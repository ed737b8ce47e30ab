import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CommandStage, GatewayError, StoredCommand, StoreChange } from '../../../src/client/gateway';

/** The connection and gateway of these tests. */
export const IDENTITY = { connectionId: 'con_1', gatewayId: 'gw-1' } as const;

const folders: string[] = [];

/** Returns the path for a store in a new folder. */
export function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-store-'));
  folders.push(folder);
  return join(folder, 'gateway.db');
}

/** Removes what `newFile` created. */
export function removeFiles(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Returns a command at a stage. Its times and texts distinguish it from others. */
export function createCommand(
  executionId: string,
  stage: CommandStage = 'received',
  other: Partial<StoredCommand> = {},
): StoredCommand {
  return {
    executionId,
    stage,
    message: Buffer.from(`command ${executionId}`),
    expiresAtUptimeMs: 60_000.5,
    machineStart: 'start-1',
    time: 1_700_000_000_000,
    result: 0,
    code: '',
    text: '',
    ...other,
  };
}

/** Returns the change that stores a command. */
export function storeCommand(
  executionId: string,
  stage: CommandStage = 'received',
  other: Partial<StoredCommand> = {},
): StoreChange {
  return { kind: 'command', command: createCommand(executionId, stage, other) };
}

/** Returns the change that stores an uplink. */
export function storeUplink(uplinkId: string, bytes = 40): StoreChange {
  return { kind: 'uplink', uplink: { uplinkId, message: Buffer.alloc(bytes, uplinkId) } };
}

export const acknowledgeCommand = (executionId: string): StoreChange => ({ kind: 'command_acknowledged', executionId });
export const forgetUplinks = (uplinkId: string): StoreChange => ({ kind: 'uplink_acknowledged', uplinkId });

/** Returns the GatewayError that a call throws. Fails if it throws none. */
export function captureError(call: () => unknown): GatewayError {
  try {
    call();
  } catch (error) {
    return error as GatewayError;
  }
  throw new Error('it threw nothing');
}
