import type { Key, PlantroomServer } from './plantroomServer';

/** What a gateway of the bench is attached to. */
export interface Seat {
  readonly server: PlantroomServer;
  readonly key: Key;
  readonly connectionId: string;
}

/** What the bench does when something comes from the server. Every command is answered with `accepted` at once. */
export interface WayHooks {
  /** A result was taken; `applied`: it ended the execution. */
  readonly acknowledged: (executionId: string, applied: boolean) => void;
  /** An uplink was taken; `stored`: it is on the server's disk. */
  readonly uplinked: (uplinkId: string, stored: boolean) => void;
}

/** A gateway that is measured. */
export interface MeasuredGateway {
  /** Rejects when its stream ends without `detach`: then nothing that is waited for comes any more. Never resolves. */
  readonly lost: Promise<never>;
  /** Hands an uplink over; resolves when the next one may follow. */
  uplink(clientDeviceId: string, values: Readonly<Record<string, unknown>>): Promise<void>;
  detach(): Promise<void>;
}
