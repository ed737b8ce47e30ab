import type { PlantroomError } from '../../../client';
import type { GatewayEvent } from '../../../client/gateway';
import { isServiceError, isUnreached, unreachedText } from '../../call/wireError';
import type { Report, SimulatorEvent } from './simulatorOptions';

type EventName = GatewayEvent['event'];
type EventNamed<Name extends EventName> = Extract<GatewayEvent, { readonly event: Name }>;
type Tellers = { readonly [Name in EventName]?: (event: EventNamed<Name>, report: Report, address: string) => void };

/** Uplinks are told by SimulatedUplinks, which knows what they show; a refusal ends the simulation with what the server said. */
const TELLERS: Tellers = {
  attached: (event, report) => report('gateway.attached', { gateway_id: event.gatewayId, connection_id: event.connectionId, max_in_flight: event.maxInFlight, protocol_version: event.protocolVersion, server_version: event.serverVersion }),
  detached: ({ error, retryInMs }, report, address) => report('gateway.detached', { ...(error && { status: error.status, reason: error.reason, message: messageOf(error, address) }), retry_in_ms: Math.round(retryInMs) }),
  command_taken: (event, report) => report('command.taken', fieldsOf(event)),
  command_repeated: (event, report) => report('command.repeated', fieldsOf(event)),
  command_withdrawn: (event, report) => report('command.withdrawn', { execution_id: event.executionId }),
  command_answered: ({ executionId, result, code, message }, report) => report('command.answered', { execution_id: executionId, result, ...(code && { code }), message }),
  command_acknowledged: (event, report) => report('command.acknowledged', { execution_id: event.executionId, outcome: event.outcome }),
  store_failing: (event, report) => report('store.failing', { message: event.message }),
  store_recovered: (_, report) => report('store.recovered', {}),
};

/** Tells an event of the library as the simulator's, if it is one. `address`: the server's. */
export function tell<Name extends EventName>(event: EventNamed<Name>, report: Report, address: string): void {
  const teller: Tellers[Name] = TELLERS[event.event];
  teller?.(event, report, address);
}

/** What the server said, or what likely keeps it from being reached: the library speaks of its own options there, which nobody gave at the command line. */
export function messageOf(error: PlantroomError, address: string): string {
  if (!isUnreached(error)) return error.message;
  const details = isServiceError(error.cause) ? error.cause.details.replaceAll(/\s+/g, ' ').trim() : '';
  return details ? `${unreachedText(address)} (${details})` : unreachedText(address);
}

function fieldsOf({ executionId, attempt, clientDeviceId, payload, fPort }: EventNamed<'command_taken' | 'command_repeated'>): SimulatorEvent['fields'] {
  const shown = payload?.kind === 'bytes' ? Buffer.from(payload.bytes).toString('hex') : payload?.value;
  return { execution_id: executionId, attempt, device: clientDeviceId, payload: shown, ...(fPort !== undefined && { f_port: fPort }) };
}
