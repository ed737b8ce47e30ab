import type { Uplink } from '../../../gen/gateway/v1/gateway_service';
import { fromTimestamp, type TimestampMessage } from '../../../kernel/timestamps';
import type { JsonObject } from '../../connectorType';
import type { UplinkMessage } from '../../connector';
import { GATEWAY } from './gatewayType';
import { clockOf, type GatewayIdentity } from './gatewaySession';

/** Why an uplink can never be stored: a code, and what would be right. */
export interface Unusable {
  readonly reason: string;
}

/** Stands for JSON that holds the key `__proto__`. */
export const REFUSED_KEY: JsonObject = {};

const LONGEST_ID = 64;
const MOST_BYTES = 64 * 1024;
const DEEPEST = 32;
const LARGEST_PORT = 255;
const UNUSABLE_IN_ID = /[\p{Cc}\p{Cs}]/u;
// The years 1 to 9999, as google.protobuf.Timestamp has them.
const FIRST_SECOND = -62_135_596_800;
const LAST_SECOND = 253_402_300_799;

/** The uplink as the rooms above take it, or why it cannot be one. */
export function readUplink(identity: GatewayIdentity, uplink: Uplink, receivedAt: number): UplinkMessage | Unusable {
  const clientDeviceId = GATEWAY.findClientDeviceId(uplink.clientDeviceId);
  if (!isUplinkId(uplink.uplinkId)) return unusable('uplink_id_invalid', `give 1 to ${LONGEST_ID} characters, none of them a control character`);
  if (clientDeviceId === undefined) return unusable('client_device_id_invalid', `give ${GATEWAY.clientDeviceIdForm}`);
  const payload = findNumberFault(uplink) ?? readPayload(uplink.payload);
  if ('reason' in payload) return payload;
  const { organizationId, connectionId } = identity;
  const { uplinkId, time, fPort } = uplink;
  return { organizationId, connectionId, identity: { kind: 'id', uplinkId }, clientDeviceId, receivedAt, time: time && fromTimestamp(time), clock: clockOf(identity), payload, fPort };
}

function isUplinkId(text: string): boolean {
  return text !== '' && text.length <= 2 * LONGEST_ID && Array.from(text).length <= LONGEST_ID && !UNUSABLE_IN_ID.test(text);
}

function findNumberFault({ time, fPort }: Uplink): Unusable | undefined {
  if (time && !isTime(time)) return unusable('time_invalid', 'give a time between the years 1 and 9999, or none');
  if (fPort !== undefined && (fPort < 0 || fPort > LARGEST_PORT)) return unusable('f_port_invalid', `give 0 to ${LARGEST_PORT}, or none`);
  return undefined;
}

function isTime({ seconds, nanos }: TimestampMessage): boolean {
  return seconds >= FIRST_SECOND && seconds <= LAST_SECOND && nanos >= 0 && nanos <= 999_999_999;
}

function readPayload(payload: Uplink['payload']): UplinkMessage['payload'] | Unusable {
  if (payload === undefined) return unusable('payload_missing', 'give json or bytes');
  if (payload.value === undefined) return unusable('payload_unreadable', `give JSON of at most ${DEEPEST} levels`); // see gatewayDefinition
  if (payload.value === REFUSED_KEY) return unusable('payload_key_refused', 'name no member `__proto__`');
  if (payload.$case === 'json') return readJson(payload.value);
  const { length } = payload.value;
  return length > MOST_BYTES ? tooLarge(length) : { kind: 'bytes', bytes: payload.value };
}

function readJson(value: JsonObject): UplinkMessage['payload'] | Unusable {
  const fault = findFault(value);
  if (fault) return fault;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return bytes > MOST_BYTES ? tooLarge(bytes) : { kind: 'json', value };
}

/** What makes a decoded value no JSON; looks at each value once and never recurses. */
function findFault(root: unknown): Unusable | undefined {
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value: root, depth: 1 }];
  for (let node = open.pop(); node; node = open.pop()) {
    const { value, depth } = node;
    if (depth > DEEPEST) return unusable('payload_too_deep', `nest at most ${DEEPEST} levels`);
    if (value === undefined || (typeof value === 'number' && !Number.isFinite(value))) return unusable('payload_invalid', 'give values that JSON has: null, finite numbers, strings, booleans, lists and objects of them');
    if (typeof value === 'object' && value !== null) open.push(...Object.values(value).map((inner: unknown) => ({ value: inner, depth: depth + 1 })));
  }
  return undefined;
}

function tooLarge(bytes: number): Unusable {
  return unusable('payload_too_large', `it is ${bytes} bytes; send at most ${MOST_BYTES}`);
}

function unusable(code: string, right: string): Unusable {
  return { reason: `${code}: ${right}` };
}
