import type { Frame } from './chirpStackEvidence';
import type { InFlightCommand } from './inFlightCommand';
import type { PendingUplink } from './pendingUplink';

/** What is known about a device. */
export interface Device {
  /** Resolves when everything that was received from the device so far is stored. */
  tail: Promise<void>;
  pendingJobs: number;
  /** The newest frame; undefined before the first one, and after a join. */
  frame: Frame | undefined;
  /** The arrival time of the last frame, on the monotonic clock. */
  lastFrameAt: number;
  /** The uplink of the last frame while it waits for an acknowledgement in the same frame. */
  pendingUplink: PendingUplink | undefined;
  /** The commands that were sent to the device and that events may refer to, oldest first. Only the newest is open. */
  commands: InFlightCommand[];
}

/** Returns the command with this execution id; undefined if it is not in `commands` (any more). */
export function findCommand({ commands }: Device, executionId: string): InFlightCommand | undefined {
  return commands.find((command) => command.executionId === executionId);
}

/** Marks all commands of the device: events about them may have been missed. */
export function markEventsMissed({ commands }: Device): void {
  for (const command of commands) command.markEventsMissed();
}

/** Returns whether a frame was received before another one: it arrives late or repeatedly. */
export function isOlderThan(frame: Frame, otherFrame: Frame | undefined): boolean {
  return frame.time !== undefined && otherFrame?.time !== undefined && frame.time < otherFrame.time;
}

/**
 * Removes the least recently used device without pending jobs and tracked commands. The order of the map is the order
 * of use.
 */
export function evictLeastRecentlyUsed(devices: Map<string, Device>): void {
  for (const [devEui, { pendingJobs, commands }] of devices) {
    if (pendingJobs > 0 || commands.length > 0) continue;
    devices.delete(devEui);
    return;
  }
}
