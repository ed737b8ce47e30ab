import type { Downlink } from '../../connector';

/** The properties of a downlink that its later events are matched with. */
export type SentCommand = Pick<Downlink, 'clientDeviceId' | 'executionId' | 'confirmed' | 'deadline'>;

/**
 * A frame opens receive windows up to 16 s after it was sent, and the network server fills them as late as possible: a
 * command that arrives within this time after the frame may still be sent in them. Milliseconds.
 */
export const RECEIVE_WINDOW_MS = 20_000;

/** A command that was passed to the network server, and what later events reported about it. */
export class InFlightCommand {
  readonly executionId: string;
  readonly confirmed: boolean;
  /** A gateway accepted it for transmission: from now on, an uplink may contain the acknowledgement of the device. */
  isTransmitted = false;
  private readonly deadline: number;

  /**
   * `sentAt`: Unix milliseconds. `mayHaveBeenTransmitted`: a receive window of an earlier frame may still be open, in
   * which the network server can transmit the command although no further frame is reported.
   */
  constructor(
    { executionId, confirmed, deadline }: SentCommand,
    readonly sentAt: number,
    private mayHaveBeenTransmitted: boolean,
  ) {
    this.executionId = executionId;
    this.confirmed = confirmed;
    this.deadline = deadline;
  }

  /**
   * Reports a frame of the device. `time`: on the clock of the network server, which compares the deadline with the
   * same clock; undefined if not reported.
   */
  frameReceived(time: number | undefined): void {
    if (time === undefined || time < this.deadline) this.mayHaveBeenTransmitted = true;
  }

  /** Reports that events may have been missed. */
  markEventsMissed(): void {
    this.mayHaveBeenTransmitted = true;
  }

  /**
   * Whether the network server provably had no opportunity to send the command to a class A device before it reported
   * it as expired. A missing txack alone is no proof, because it may be lost.
   */
  get isProvablyUnsent(): boolean {
    return !this.mayHaveBeenTransmitted && !this.isTransmitted;
  }
}
