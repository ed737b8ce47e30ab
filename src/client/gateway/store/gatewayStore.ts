/** How far a command came on this gateway; it only goes on, never back. */
export type CommandStage =
  /** Kept; its delivery has not begun. */
  | 'received'
  /** Its delivery began: from here on nobody can say that nothing reached the device, unless the delivery says so. */
  | 'started'
  /** Its result is known. */
  | 'ended'
  /** The server has the result; the id and the result are kept, without the message and the text, so that it is not done again. */
  | 'acknowledged';

/** A command as it is kept. */
export interface KeptCommand {
  readonly executionId: string;
  readonly stage: CommandStage;
  /** The `Command` message as it came; empty for an acknowledged one. */
  readonly message: Uint8Array;
  /** Until when it may be begun, on the clock of the machine that counts from its start (sleep included), in milliseconds; 0 for an acknowledged one. */
  readonly expiresAtUptimeMs: number;
  /** Of which start of the machine that is; empty for an acknowledged one. */
  readonly machineStart: string;
  /** When it came to its stage, Unix milliseconds by the gateway's clock; of an acknowledged one, when it ended. A whole number. */
  readonly time: number;
  /** As in CommandResultCode; 0: not ended. */
  readonly result: number;
  readonly code: string;
  /** What the device or gateway said; empty for an acknowledged one. */
  readonly text: string;
}

/** An uplink as it is kept: the `Uplink` message as it leaves. */
export interface KeptUplink {
  readonly uplinkId: string;
  readonly message: Uint8Array;
}

/** A kept uplink and its place in the row. */
export interface QueuedUplink extends KeptUplink {
  /** Grows from uplink to uplink, with gaps; never used twice while the store is open. */
  readonly position: number;
}

/** One change; changes that come together are on disk together. */
export type StoreChange =
  /** Keeps it, or what is new of it. Does nothing where it came as far already. Never with the stage `acknowledged`. */
  | { readonly kind: 'command'; readonly command: KeptCommand }
  /** Forgets all but its id and result. Does nothing where it is not known. */
  | { readonly kind: 'command_acknowledged'; readonly executionId: string }
  /** Keeps it at the end of the row. Does nothing where one of this id is kept. */
  | { readonly kind: 'uplink'; readonly uplink: KeptUplink }
  /** Forgets it. Does nothing where it is not kept. */
  | { readonly kind: 'uplink_acknowledged'; readonly uplinkId: string };

/** How large the message of a change is. */
export function bytesOf(change: StoreChange): number {
  if (change.kind === 'uplink') return change.uplink.message.length;
  return change.kind === 'command' ? change.command.message.length : 0;
}

/**
 * How many acknowledged commands are remembered, the newest. A command can only come again while the server has not stored its result; a server that
 * acknowledged it has. What remains are messages that were on their way then, at most 10,000 of one stream, and a server that was set back to a backup.
 */
export const REMEMBERED_COMMANDS = 100_000;

/** `uplinksAfter` ends where it has this many bytes of messages, so that a long row of large ones fits into memory. */
export const PAGE_BYTES = 4 * 1024 * 1024;

/** Whose store it is. */
export interface StoreIdentity {
  readonly connectionId: string;
  /** Undefined: the one that is kept; one is made where there is none. */
  readonly gatewayId: string | undefined;
}

/** What a gateway must not forget: commands until their result is acknowledged, their ids for long after, uplinks until they are acknowledged. */
export interface GatewayStore {
  /** Whether it survives a restart of the process and a power cut. */
  readonly isDurable: boolean;
  /** Opens it for a gateway of a connection; the identity is kept. Throws GatewayError: `store_in_use`, `store_damaged`, `store_of_another`, `store_unusable`, `store_full` where a new one finds no room. */
  open(identity: StoreIdentity): { readonly gatewayId: string };
  /** Every command that is not acknowledged, in the order in which they came. Throws GatewayError `store_failed`, `store_damaged`. */
  openCommands(): KeptCommand[];
  /** A command by its id, also an acknowledged one; undefined: it never came, or so long ago that it is forgotten. Throws as `openCommands`. */
  findCommand(executionId: string): KeptCommand | undefined;
  /** Uplinks that are not acknowledged, in the order in which they came, after this position (0: from the first); at most `most`, and about 4 MiB. Throws as `openCommands`. */
  uplinksAfter(position: number, most: number): QueuedUplink[];
  /** How many uplinks are not acknowledged. */
  readonly uplinkCount: number;
  /** How many bytes the messages of these have. */
  readonly uplinkBytes: number;
  /** Makes all of the changes or none. They are durable when it returns. Throws GatewayError `store_full`, `store_failed`, `store_damaged`. */
  apply(changes: readonly StoreChange[]): void;
  /** Closes it; it can be opened again. */
  close(): void;
}
