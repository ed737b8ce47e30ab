import type { GatewayStore } from '../../../client/gateway';
import type { Target } from '../../call/target';
import type { Answer, PlayedEvent } from '../playing';
import type { SimulatedDevice } from '../simulatedDevices';

/** What the simulator plays. All times are milliseconds. */
export interface SimulatorOptions extends Omit<Target, 'credentials'> {
  readonly connectionId: string;
  /** The same over the starts of one gateway; undefined: the one that the store keeps. */
  readonly gatewayId: string | undefined;
  readonly devices: readonly SimulatedDevice[];
  /** Of commands and uplinks. */
  readonly store: GatewayStore;
  /** Between two uplinks of a device; 0: only after a command. */
  readonly uplinkIntervalMs: number;
  /** From a command to the device's answer. */
  readonly answerDelayMs: number;
  readonly answer: Answer;
  /** Does not say command_received, only the result. */
  readonly dropReceived: boolean;
  /** Sends the readings as bytes, as devices do whose gateway decodes nothing. */
  readonly raw?: boolean;
  /** Pause before the attempt that follows this many failed ones; that of the library unless said. */
  readonly backoffMs?: (failures: number) => number;
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
    | 'uplink.acknowledged'
    | 'store.failing'
    | 'store.recovered';
}

/** Takes what happens, in the order in which it happens. */
export type Report = (event: SimulatorEvent['event'], fields: SimulatorEvent['fields']) => void;
