/** How far a command came on this gateway. */
export type CommandStage =
  /** Kept; its delivery has not begun. */
  | 'received'
  /** Its delivery began: from here on nobody can say that nothing reached the device, unless the delivery says so. */
  | 'started'
  /** Its result is known. */
  | 'ended'
  /** The server has the result; only the id is kept, so that it is not done again. */
  | 'acknowledged';

/** A command as it is kept. */
export interface KeptCommand {
  readonly executionId: string;
  readonly stage: CommandStage;
  /** The `Command` message as it came, for one that has not ended. */
  readonly message: Uint8Array;
  /** When it came and until when it may be begun: on the clock of the machine that counts from its start (sleep included), in milliseconds, and of which start. */
  readonly expiresAtUptimeMs: number;
  readonly machineStart: string;
  /** When it came to its stage, Unix milliseconds by the gateway's clock. */
  readonly time: number;
  /** As in CommandResultCode; 0: not ended. */
  readonly result: number;
  readonly code: string;
  readonly text: string;
}

/** An uplink as it is kept: the `Uplink` message as it leaves. */
export interface KeptUplink {
  readonly uplinkId: string;
  readonly message: Uint8Array;
}

/** One change; changes that come together are on disk together. */
export type StoreChange =
  | { readonly kind: 'command'; readonly command: KeptCommand }
  | { readonly kind: 'command_acknowledged'; readonly executionId: string }
  | { readonly kind: 'uplink'; readonly uplink: KeptUplink }
  | { readonly kind: 'uplink_acknowledged'; readonly uplinkId: string };

/** What a gateway must not forget: commands until their result is acknowledged, their ids for long after, uplinks until they are acknowledged. */
export interface GatewayStore {
  /** Whether it survives a restart of the process and a power cut. */
  readonly isDurable: boolean;
  /** Opens it for a gateway of a connection; the identity is kept, and made where none is given. Throws GatewayError: `store_in_use`, `store_damaged`, `store_of_another`, `store_unusable`. */
  open(identity: { readonly connectionId: string; readonly gatewayId: string | undefined }): { readonly gatewayId: string };
  /** Every command that is not acknowledged, in the order in which they came. */
  openCommands(): KeptCommand[];
  /** A command by its id, also an acknowledged one; undefined: it never came, or so long ago that it is forgotten. */
  findCommand(executionId: string): KeptCommand | undefined;
  /** Uplinks that are not acknowledged, in the order in which they came, after this one; at most `most`. */
  uplinksAfter(uplinkId: string | undefined, most: number): KeptUplink[];
  /** How many uplinks are not acknowledged. */
  readonly uplinkCount: number;
  /** Makes all of the changes or none. They are durable when it returns. Throws GatewayError `store_full` or `store_failed`. */
  apply(changes: readonly StoreChange[]): void;
  /** Closes it. */
  close(): void;
}
