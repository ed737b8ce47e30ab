import type { KeptCommand } from '../store/gatewayStore';

/** A command whose result the server has not acknowledged. */
export interface OpenCommand {
  /** As it is kept, without its message: that is read from the store when its turn comes. Of one that is not kept yet all of it, as it is to be kept. */
  kept: KeptCommand;
  readonly clientDeviceId: string;
  /** Where it is not kept, the server is told that nothing was done, and it is forgotten with the acknowledgement. */
  isKept: boolean;
  /** Whether its result may leave: it is kept, or a restart would not do what the result says was not done. */
  isTellable: boolean;
  /** When its result was last told on this stream, in ticks; undefined: it was not. */
  toldAt: number | undefined;
  /** The server does not want it any more. */
  isWithdrawn: boolean;
  /** Its turn came, which decides what becomes of it. */
  isStarting: boolean;
  /** Where its turn did not come at once: that it is being kept until then. */
  keeping: Promise<void> | undefined;
  /** Ends its wait at its deadline. */
  timer: NodeJS.Timeout | undefined;
}

const NOTHING = new Uint8Array(0);

/** A command that came now, without what it says. */
export function emptyCommand(executionId: string): KeptCommand {
  return { executionId, stage: 'received', message: NOTHING, expiresAtUptimeMs: 0, machineStart: '', time: Date.now(), result: 0, code: '', text: '' };
}

/** A command that came and is not kept yet. */
export function newCommand(kept: KeptCommand, clientDeviceId: string): OpenCommand {
  return { kept, clientDeviceId, isKept: false, isTellable: false, toldAt: undefined, isWithdrawn: false, isStarting: false, keeping: undefined, timer: undefined };
}

/** A command as it was kept before a restart. */
export function keptCommand(kept: KeptCommand, clientDeviceId: string): OpenCommand {
  return { ...newCommand(withoutMessage(kept), clientDeviceId), isKept: true, isTellable: kept.stage === 'ended' };
}

/** The same without its message. */
export function withoutMessage(kept: KeptCommand): KeptCommand {
  return { ...kept, message: NOTHING };
}

/** Whether it waits for its turn: its delivery has not begun and is not about to. */
export function isWaiting({ kept, isStarting }: OpenCommand): boolean {
  return kept.stage === 'received' && !isStarting;
}
