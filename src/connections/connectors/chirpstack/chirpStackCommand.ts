import { isJsonObject, type JsonValue } from '../../../kernel/jsonValue';
import type { Downlink } from '../../connector';
import type { DownCommand } from './chirpStackEvent';

/** Why a downlink cannot be written as a command. */
export interface Unwritable {
  readonly code: string;
  readonly message: string;
}

/**
 * The id of the execution is that of the queue item, at every attempt: while the network server has it in its queue, it refuses another one.
 * Once the item has left the queue its id is forgotten there. So nothing acts twice because the dispatcher sends a second time only what
 * provably never arrived, not because of the id.
 */
export function commandOf({ executionId, clientDeviceId, confirmed, fPort, payload, deadline }: Downlink): DownCommand | Unwritable {
  if (fPort === undefined) return { code: 'f_port_missing', message: 'the command names no port of the device; give one' };
  const command = { id: executionId, devEui: clientDeviceId, confirmed, fPort, expiresAt: deadline };
  if (payload.kind === 'bytes') return { ...command, payload };
  const value = payload.value as JsonValue;
  if (isJsonObject(value)) return { ...command, payload: { kind: 'json', value } };
  return { code: 'payload_no_object', message: 'ChirpStack encodes objects only; give a payload template that makes a JSON object' };
}
