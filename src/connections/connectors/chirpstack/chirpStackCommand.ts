import { isObject, type JsonValue } from '../../../kernel/jsonValue';
import type { Downlink } from '../../connector';
import type { DownCommand } from './chirpStackEvent';

/** The reason why a downlink cannot be encoded as a command. */
export interface Unwritable {
  readonly code: string;
  readonly message: string;
}

/**
 * Converts a downlink to a command. The queue item has the id of the execution at every attempt, and the network server
 * rejects an id that is already in its queue. It forgets the id when the item leaves the queue. So the id does not
 * prevent duplicates: the dispatcher only sends again what provably never arrived.
 */
export function toCommand({
  executionId,
  clientDeviceId,
  confirmed,
  fPort,
  payload,
  deadline,
}: Downlink): DownCommand | Unwritable {
  if (fPort === undefined)
    return { code: 'f_port_missing', message: 'the command has no port of the device: set fPort' };
  const command = { id: executionId, devEui: clientDeviceId, confirmed, fPort, expiresAt: deadline };
  if (payload.kind === 'bytes') return { ...command, payload };
  const value = payload.value as JsonValue;
  if (isObject(value)) return { ...command, payload: { kind: 'json', value } };
  return {
    code: 'payload_no_object',
    message: 'ChirpStack only encodes objects: use a payload template that produces a JSON object',
  };
}
