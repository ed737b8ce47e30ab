import { type Connection, findConnectorKind, hasNativeAck } from '../connections';
import type { Command } from './command';

/** What the verification of a valid command cannot prove, and how to change the command. */
export interface CommandWarning {
  /** In snake_case. */
  readonly code: string;
  readonly message: string;
}

const CODE = 'expected_sensor_states_recommended';
const UPLINK_WARNING: CommandWarning = {
  code: CODE,
  message:
    'wait_next_uplink without expectedSensorStates proves little if the device does not acknowledge commands: any readable uplink after the command finishes the execution, also from a device that never received it. Set expectedSensorStates or, on LoRaWAN, confirmed',
};
const QUERY_WARNING: CommandWarning = {
  code: CODE,
  message:
    'query_after_ack without expectedSensorStates proves nothing if the device does not acknowledge the query: no uplink can be recognized as its answer, and the execution finishes with query_timeout. Set expectedSensorStates of this command or of the query command',
};

/** Whether a command can have warnings. They also depend on its query command and the connection of its device. */
export function mayHaveWarnings({ expectedSensorStates, verificationStrategy }: Command): boolean {
  const isByUplink = verificationStrategy === 'wait_next_uplink' || verificationStrategy === 'query_after_ack';
  return isByUplink && expectedSensorStates.length === 0;
}

/**
 * Lists the warnings about a command. `query`: its query command; `connection`: that of its device, undefined if the
 * device is not bound.
 */
export function listCommandWarnings(
  command: Command,
  query: Command | undefined,
  connection: Connection | undefined,
): CommandWarning[] {
  if (!mayHaveWarnings(command)) return [];
  const isAcknowledged = (sent: Command): boolean => hasNativeAck(findConnectorKind(connection, sent));
  if (command.verificationStrategy === 'wait_next_uplink') return isAcknowledged(command) ? [] : [UPLINK_WARNING];
  const isQueryUnrecognizable =
    query !== undefined && query.expectedSensorStates.length === 0 && !isAcknowledged(query);
  return isQueryUnrecognizable ? [QUERY_WARNING] : [];
}
