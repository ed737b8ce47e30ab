import { openSync, readFileSync, writeSync, existsSync } from 'node:fs';
import { uptime } from 'node:os';

/** What happened on the gateway, told by nobody but the callbacks themselves. `at`: milliseconds of the machine's uptime, which no clock of a process moves. */
export type WorldLine =
  /** The store is about to keep that the delivery of this began. */
  | { readonly kind: 'starting'; readonly executionId: string }
  /** `deliver` was called: the device does it. */
  | { readonly kind: 'delivered'; readonly executionId: string; readonly clientDeviceId: string; readonly payload: unknown; readonly at: number }
  /** `send` of an uplink with this value resolved. */
  | { readonly kind: 'sent'; readonly clientDeviceId: string; readonly value: number }
  /** What must not happen on a gateway. */
  | { readonly kind: 'fault'; readonly text: string };

/** Milliseconds since the machine started: the same for all of its processes. */
export function uptimeMs(): number {
  return uptime() * 1000;
}

/** The devices' own memory: a file that every process of the gateway appends to, one write for a line, so that kill -9 leaves whole lines. */
export class WorldFile {
  private readonly descriptor: number;

  constructor(private readonly path: string) {
    this.descriptor = openSync(path, 'a');
  }

  /** Written when it returns. */
  note(line: WorldLine): void {
    writeSync(this.descriptor, `${JSON.stringify(line)}\n`);
  }

  /** Everything so far, also of the processes before. */
  read(): WorldLine[] {
    return readWorld(this.path);
  }
}

/** Every line of such a file, in order. */
export function readWorld(path: string): WorldLine[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n');
  return lines.filter((text) => text !== '').map((text) => JSON.parse(text) as WorldLine);
}
