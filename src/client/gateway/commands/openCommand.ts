import type { StoredCommand } from '../store/gatewayStore';

/** A command whose result the server has not acknowledged. */
export interface OpenCommand {
  /**
   * The stored command without its message, which is read from the store when the delivery starts. If the command is
   * not stored yet: the whole command to store.
   */
  stored: StoredCommand;
  readonly clientDeviceId: string;
  /**
   * Whether the command is in the store. A command that is not is never executed: the gateway reports that, or
   * `no_answer` if it may have been executed by an earlier start, and forgets it when the server acknowledges that.
   */
  isStored: boolean;
  /** Whether its result may be sent: the result is stored, or would be the same after a restart. */
  isSendable: boolean;
  /** The tick at which its result was last sent on this stream; undefined: not yet. */
  sentAtTick: number | undefined;
  /** The server has cancelled the command. */
  isCancelled: boolean;
  /** Its delivery is starting: only the delivery settles the command from now on. */
  isStarting: boolean;
  /** The pending write of a command whose delivery did not start immediately. */
  storing: Promise<void> | undefined;
  /** The timer for its deadline. */
  timer: NodeJS.Timeout | undefined;
}

const NOTHING = new Uint8Array(0);

/** Creates the record of a command that has just been received. The caller sets its message and deadline. */
export function createReceivedCommand(executionId: string): StoredCommand {
  return {
    executionId,
    stage: 'received',
    message: NOTHING,
    expiresAtUptimeMs: 0,
    machineStart: '',
    time: Date.now(),
    result: 0,
    code: '',
    text: '',
  };
}

/** Creates an open command that is not stored yet. */
export function createOpenCommand(stored: StoredCommand, clientDeviceId: string): OpenCommand {
  return {
    stored,
    clientDeviceId,
    isStored: false,
    isSendable: false,
    sentAtTick: undefined,
    isCancelled: false,
    isStarting: false,
    storing: undefined,
    timer: undefined,
  };
}

/** Creates an open command that was stored before a restart. */
export function restoreOpenCommand(stored: StoredCommand, clientDeviceId: string): OpenCommand {
  return {
    ...createOpenCommand(withoutMessage(stored), clientDeviceId),
    isStored: true,
    isSendable: stored.stage === 'ended',
  };
}

/** Returns the stored command without its message. */
export function withoutMessage(stored: StoredCommand): StoredCommand {
  return { ...stored, message: NOTHING };
}

/** Returns whether the command is waiting: its delivery has not started and is not starting. */
export function isWaiting({ stored, isStarting }: OpenCommand): boolean {
  return stored.stage === 'received' && !isStarting;
}
