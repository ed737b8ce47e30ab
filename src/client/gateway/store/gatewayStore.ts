/** The stage of a command on this gateway. It only moves forward. */
export type CommandStage =
  /** Stored; its delivery has not started. */
  | 'received'
  /**
   * Its delivery has started. From here on, it is unknown whether the device received it, unless the delivery returns a
   * result.
   */
  | 'started'
  /** Its result is known. */
  | 'ended'
  /**
   * The server has the result. The id and the result are stored without the message and the text, so that the command
   * is never executed again.
   */
  | 'acknowledged';

/** A stored command. */
export interface StoredCommand {
  readonly executionId: string;
  readonly stage: CommandStage;
  /** The received `Command` message; empty for an acknowledged command. */
  readonly message: Uint8Array;
  /**
   * The time until which its delivery may start, in milliseconds since the start of the machine (including sleep); 0
   * for an acknowledged command.
   */
  readonly expiresAtUptimeMs: number;
  /** Identifies the start of the machine that `expiresAtUptimeMs` counts from; empty for an acknowledged command. */
  readonly machineStart: string;
  /**
   * When it reached its stage, Unix milliseconds by the clock of the gateway, a whole number; for an acknowledged
   * command, when it ended.
   */
  readonly time: number;
  /** A value of CommandResultCode; 0: not ended. */
  readonly result: number;
  /** The code of the result; empty: none. */
  readonly code: string;
  /** The message of the device or the gateway; empty for an acknowledged command. */
  readonly text: string;
}

/** A stored uplink: the encoded `Uplink` message as it is sent. */
export interface StoredUplink {
  readonly uplinkId: string;
  readonly message: Uint8Array;
}

/** A stored uplink with its position in the queue. */
export interface QueuedUplink extends StoredUplink {
  /** Increases from uplink to uplink, possibly with gaps; never reused while the store is open. */
  readonly position: number;
}

/** A change of the store. Changes of one call of `apply` are written together. */
export type StoreChange =
  /**
   * Stores or updates a command. Has no effect if the stored command has already reached this stage. The stage is never
   * `acknowledged`.
   */
  | { readonly kind: 'command'; readonly command: StoredCommand }
  /** Removes everything except the id and the result. Has no effect for an unknown command. */
  | { readonly kind: 'command_acknowledged'; readonly executionId: string }
  /** Adds an uplink at the end of the queue. Has no effect if an uplink with this id is stored. */
  | { readonly kind: 'uplink'; readonly uplink: StoredUplink }
  /** Removes an uplink. Has no effect if it is not stored. */
  | { readonly kind: 'uplink_acknowledged'; readonly uplinkId: string };

/** Returns the size of the message of a change in bytes. */
export function getMessageSize(change: StoreChange): number {
  if (change.kind === 'uplink') return change.uplink.message.length;
  return change.kind === 'command' ? change.command.message.length : 0;
}

/**
 * The number of acknowledged commands that are remembered, the newest. The server sends a command again only as long as
 * it has not stored the result, so an acknowledged command can only arrive again if it was already on its way (at most
 * 10,000 commands of one stream) or if the server was restored from a backup.
 */
export const REMEMBERED_COMMANDS = 100_000;

/** `uplinksAfter` returns at most about this many bytes of messages, so that many large uplinks fit into memory. */
export const PAGE_BYTES = 4 * 1024 * 1024;

/** The gateway that a store belongs to. */
export interface StoreIdentity {
  readonly connectionId: string;
  /** Undefined: use the stored id, or create one if there is none. */
  readonly gatewayId: string | undefined;
}

/**
 * The persistent state of a gateway: commands until their result is acknowledged, their ids for a long time after that,
 * and uplinks until they are acknowledged.
 */
export interface GatewayStore {
  /** Whether the store survives a restart of the process and a power failure. */
  readonly isDurable: boolean;
  /**
   * Opens the store for a gateway of a connection; the identity is stored. Throws GatewayError: `store_in_use`,
   * `store_corrupt`, `store_of_another`, `store_unusable`, and `store_full` if there is no space for a new store.
   */
  open(identity: StoreIdentity): { readonly gatewayId: string };
  /**
   * Lists all commands that are not acknowledged, in the order of their arrival. Throws GatewayError `store_failed`,
   * `store_corrupt`.
   */
  openCommands(): StoredCommand[];
  /**
   * Finds a command by id, including acknowledged ones; undefined if it never arrived or is no longer remembered.
   * Throws like `openCommands`.
   */
  findCommand(executionId: string): StoredCommand | undefined;
  /**
   * Lists uplinks that are not acknowledged, in the order of their arrival, after a position (0: from the first); at
   * most `max`, and about 4 MiB. Throws like `openCommands`.
   */
  uplinksAfter(position: number, max: number): QueuedUplink[];
  /** The number of uplinks that are not acknowledged. */
  readonly uplinkCount: number;
  /** The total size of their messages in bytes. */
  readonly uplinkBytes: number;
  /**
   * Applies all changes or none. They are durable when it returns, if the store is durable. Throws GatewayError
   * `store_full`, `store_failed`, `store_corrupt`.
   */
  apply(changes: readonly StoreChange[]): void;
  /** Closes the store. It can be opened again. */
  close(): void;
}
