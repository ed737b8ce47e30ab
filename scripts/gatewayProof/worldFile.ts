import { openSync, readFileSync, writeSync, existsSync } from 'node:fs';
import { uptime } from 'node:os';

/**
 * What happened on the gateway, recorded by its callbacks. `at`: milliseconds of the machine's uptime, which does not
 * depend on the time of day.
 */
export type WorldLine =
  /** The store is about to record the start of this delivery. */
  | { readonly kind: 'starting'; readonly executionId: string }
  /** `deliver` was called, and the device carries out the command. */
  | {
      readonly kind: 'delivered';
      readonly executionId: string;
      readonly clientDeviceId: string;
      readonly payload: unknown;
      readonly at: number;
    }
  /** `send` of an uplink with this value resolved. */
  | { readonly kind: 'sent'; readonly clientDeviceId: string; readonly value: number }
  /** Something that must not happen on a gateway. */
  | { readonly kind: 'fault'; readonly text: string };

/** Returns the milliseconds since the machine started, the same for all processes. */
export function uptimeMs(): number {
  return uptime() * 1000;
}

/**
 * The record of what the devices did: a file to which every gateway process appends, with one write per line, so that a
 * kill leaves complete lines.
 */
export class WorldFile {
  private readonly descriptor: number;

  constructor(private readonly path: string) {
    this.descriptor = openSync(path, 'a');
  }

  /** Appends a line synchronously. */
  note(line: WorldLine): void {
    writeSync(this.descriptor, `${JSON.stringify(line)}\n`);
  }

  /** Reads all lines, including those of earlier processes. */
  read(): WorldLine[] {
    return readWorld(this.path);
  }
}

/** Reads all lines of a world file, in order. */
export function readWorld(path: string): WorldLine[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((text) => text !== '').map((text) => JSON.parse(text) as WorldLine);
}
