import type { ChannelCredentials } from '@grpc/grpc-js';
import type { Answer, PlayedEvent } from '../playing';
import type { SimulatedDevice } from '../simulatedDevices';
import type { GatewayMemory } from './gatewayMemory';

/** What the simulator plays. All times are milliseconds. */
export interface SimulatorOptions {
  readonly address: string;
  readonly credentials: ChannelCredentials;
  readonly key: string;
  readonly organizationId: string;
  readonly connectionId: string;
  /** The same over the starts of one gateway. */
  readonly gatewayId: string;
  readonly devices: readonly SimulatedDevice[];
  readonly memory: GatewayMemory;
  /** Says VOLATILE: a restart forgets what was received. */
  readonly volatile: boolean;
  /** Between two uplinks of a device; 0: only after a command. */
  readonly uplinkIntervalMs: number;
  /** From a command to the device's answer. */
  readonly answerDelayMs: number;
  readonly answer: Answer;
  /** Does not say command_received, only the result. */
  readonly dropReceived: boolean;
  /** Sends the readings as bytes, as devices do whose gateway decodes nothing. */
  readonly raw?: boolean;
  /** Pause before the attempt that follows this many failed ones. */
  readonly backoffMs: (failures: number) => number;
}

/** What the simulated gateway did or saw. */
export interface SimulatorEvent extends PlayedEvent {
  readonly event:
    | 'gateway.attached'
    | 'gateway.detached'
    | 'command.taken'
    | 'command.repeated'
    | 'command.withdrawn'
    | 'command.answered'
    | 'command.acknowledged'
    | 'uplink.sent'
    | 'uplink.dropped'
    | 'uplink.acknowledged';
}

/** Grows from 1 s to 30 s. */
export function usualBackoff(failures: number): number {
  return Math.min(1000 * 2 ** Math.min(failures, 5), 30_000);
}
