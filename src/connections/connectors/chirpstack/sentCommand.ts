import type { Downlink } from '../../connector';

/** What of a downlink its later events are held against. */
export type CommandFacts = Pick<Downlink, 'clientDeviceId' | 'executionId' | 'confirmed' | 'deadline'>;

/**
 * A frame opens receive windows up to 16 s after it was sent, and the network server fills them as late as it can: a command that comes
 * within this time after the frame may still go into them. Milliseconds.
 */
export const WINDOW_MS = 20_000;

/** A command that was handed to the network server, and what its events have told since. */
export class SentCommand {
  readonly executionId: string;
  readonly confirmed: boolean;
  /** A gateway took it, so that from now on an uplink may bring the device's acknowledgement. */
  isTransmitted = false;
  private readonly deadline: number;

  /** `mayBeTransmitted`: the network server may have had a chance to send it that no event will tell of. */
  constructor(
    { executionId, confirmed, deadline }: CommandFacts,
    private mayBeTransmitted: boolean,
  ) {
    this.executionId = executionId;
    this.confirmed = confirmed;
    this.deadline = deadline;
  }

  /** A frame of the device came in. `time`: by the network server's clock, which is also the one that it judges the deadline by; undefined: it did not say. */
  heard(time: number | undefined): void {
    if (time === undefined || time < this.deadline) this.mayBeTransmitted = true;
  }

  /** From now on events may have been missed. */
  lostSight(): void {
    this.mayBeTransmitted = true;
  }

  /** Whether the network server provably had no chance to send it to a device of class A, if it says that it expired. A txack alone may get lost. */
  get isProvablyUnsent(): boolean {
    return !this.mayBeTransmitted && !this.isTransmitted;
  }
}
