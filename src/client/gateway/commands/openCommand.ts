import type { KeptCommand } from '../store/gatewayStore';

/** A command whose result the server has not acknowledged. */
export interface OpenCommand {
  /** As it is kept, without its message: that is read from the store when its turn comes. */
  kept: KeptCommand;
  readonly clientDeviceId: string;
  /** Where it is not kept, the server is told that nothing was done, and it is forgotten with the acknowledgement. */
  isKept: boolean;
  /** Whether its result may leave: it is kept, or a restart would not do what the result says was not done. */
  isTellable: boolean;
  /** The server does not want it any more. */
  isWithdrawn: boolean;
  /** Its delivery is about to begin: its turn decides what becomes of it. */
  isStarting: boolean;
  /** Ends its wait at its deadline. */
  timer: NodeJS.Timeout | undefined;
}

const NOTHING = new Uint8Array(0);

/** A command that came now. */
export function emptyCommand(executionId: string): KeptCommand {
  return { executionId, stage: 'received', message: NOTHING, expiresAtUptimeMs: 0, machineStart: '', time: Date.now(), result: 0, code: '', text: '' };
}

/** A command as it came, or as it was kept before a restart. */
export function openCommand(kept: KeptCommand, clientDeviceId: string, isKept: boolean): OpenCommand {
  return { kept: withoutMessage(kept), clientDeviceId, isKept, isTellable: isKept && kept.stage === 'ended', isWithdrawn: false, isStarting: false, timer: undefined };
}

/** The same without its message. */
export function withoutMessage(kept: KeptCommand): KeptCommand {
  return { ...kept, message: NOTHING };
}

/** Whether its delivery has not begun and is not about to. */
export function isWaiting({ kept, isStarting }: OpenCommand): boolean {
  return kept.stage === 'received' && !isStarting;
}
