import type { GatewayStore } from '../../../client/gateway';
import type { Target } from '../../call/target';
import type { Answer, SimulationEvent } from '../simulation';
import type { SimulatedDevice } from '../simulatedDevices';

/** The options of the gateway simulator. All times are milliseconds. */
export interface SimulatorOptions extends Omit<Target, 'credentials'> {
  readonly connectionId: string;
  /** Constant over all starts of one gateway; undefined: use the id in the store. */
  readonly gatewayId: string | undefined;
  readonly devices: readonly SimulatedDevice[];
  /** Stores commands and uplinks. */
  readonly store: GatewayStore;
  /** Between two uplinks of a device; 0: only after a command. */
  readonly uplinkIntervalMs: number;
  /** From a command to the response of the device. */
  readonly answerDelayMs: number;
  readonly answer: Answer;
  /** Whether it sends command_received before the result. */
  readonly sendReceipts: boolean;
  /** Sends the readings as bytes, like a gateway that does not decode them. */
  readonly binaryPayload?: boolean;
  /** Returns the delay before the next attempt after this number of failed ones; default: that of the library. */
  readonly backoffMs?: (failures: number) => number;
}

/** An event of the simulated gateway. */
export interface SimulatorEvent extends SimulationEvent {
  readonly event:
    | 'gateway.attached'
    | 'gateway.detached'
    | 'command.taken'
    | 'command.repeated'
    | 'command.cancelled'
    | 'command.answered'
    | 'command.acknowledged'
    | 'message.rejected'
    | 'uplink.sent'
    | 'uplink.dropped'
    | 'uplink.acknowledged'
    | 'store.failing'
    | 'store.recovered';
}

/** Receives the events in order. */
export type Report = (event: SimulatorEvent['event'], fields: SimulatorEvent['fields']) => void;
