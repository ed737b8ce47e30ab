import type { PlantroomError } from '../../../client';
import type { GatewayEvent } from '../../../client/gateway';
import { isServiceError, isUnreachable, formatUnreachable } from '../../call/wireError';
import type { Report, SimulatorEvent } from './simulatorOptions';

type EventName = GatewayEvent['event'];
type EventNamed<Name extends EventName> = Extract<GatewayEvent, { readonly event: Name }>;
type Reporters = { readonly [Name in EventName]?: (event: EventNamed<Name>, report: Report, address: string) => void };

/**
 * Uplinks are reported by SimulatedUplinks, which knows their readings. A rejection ends the simulation with the error
 * of the server.
 */
const REPORTERS: Reporters = {
  attached: (event, report) =>
    report('gateway.attached', {
      gateway_id: event.gatewayId,
      connection_id: event.connectionId,
      max_in_flight: event.maxInFlight,
      protocol_version: event.protocolVersion,
      server_version: event.serverVersion,
    }),
  detached: ({ error, retryInMs }, report, address) =>
    report('gateway.detached', {
      ...(error && { status: error.status, reason: error.reason, message: formatMessage(error, address) }),
      retry_in_ms: Math.round(retryInMs),
    }),
  command_taken: (event, report) => report('command.taken', getCommandFields(event)),
  command_repeated: (event, report) => report('command.repeated', getCommandFields(event)),
  command_cancelled: (event, report) => report('command.cancelled', { execution_id: event.executionId }),
  command_answered: ({ executionId, result, code, message }, report) =>
    report('command.answered', { execution_id: executionId, result, ...(code && { code }), message }),
  command_acknowledged: ({ executionId, outcome, reason }, report) =>
    report('command.acknowledged', { execution_id: executionId, outcome, ...(reason && { reason }) }),
  message_rejected: ({ executionId, reason }, report) =>
    report('message.rejected', { execution_id: executionId, reason }),
  store_failing: (event, report) => report('store.failing', { message: event.message }),
  store_recovered: (_, report) => report('store.recovered', {}),
};

/** Reports an event of the library as an event of the simulator, if there is one. `address`: that of the server. */
export function reportEvent<Name extends EventName>(event: EventNamed<Name>, report: Report, address: string): void {
  const reporter: Reporters[Name] = REPORTERS[event.event];
  reporter?.(event, report, address);
}

/**
 * Returns the error message of the server, or the likely reason why it is unreachable. The library message is not used
 * in that case, because it refers to library options that do not exist on the command line.
 */
export function formatMessage(error: PlantroomError, address: string): string {
  if (!isUnreachable(error)) return error.message;
  const details = isServiceError(error.cause) ? error.cause.details.replaceAll(/\s+/g, ' ').trim() : '';
  return details ? `${formatUnreachable(address)} (${details})` : formatUnreachable(address);
}

/** Returns the fields of a received command; bytes are shown in hex. */
function getCommandFields({
  executionId,
  attempt,
  clientDeviceId,
  payload,
  fPort,
}: EventNamed<'command_taken' | 'command_repeated'>): SimulatorEvent['fields'] {
  const formattedPayload = payload?.kind === 'bytes' ? Buffer.from(payload.bytes).toString('hex') : payload?.value;
  return {
    execution_id: executionId,
    attempt,
    device: clientDeviceId,
    payload: formattedPayload,
    ...(fPort !== undefined && { f_port: fPort }),
  };
}
