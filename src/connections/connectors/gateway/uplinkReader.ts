import type { Uplink } from '../../../gen/gateway/v1/gateway_service';
import { replaceNonFinite } from '../../../kernel/inexactNumber';
import { fromTimestamp, isValidTimestamp } from '../../../kernel/timestamps';
import type { JsonObject } from '../../connectorType';
import type { UplinkMessage } from '../../connector';
import { GATEWAY } from './gatewayType';
import { getClockId, type GatewayIdentity } from './gatewaySession';

/** The reason why an uplink can never be stored: a code and the valid value. */
interface InvalidUplink {
  readonly reason: string;
}

/** The object that gatewayDefinition sets for JSON with the key `__proto__`; recognized by its identity. */
export const INVALID_KEY_PAYLOAD: JsonObject = {};

const MAX_ID_LENGTH = 64;
const MAX_BYTES = 64 * 1024;
const MAX_DEPTH = 32;
const MAX_F_PORT = 255;
const UNUSABLE_IN_ID = /[\p{Cc}\p{Cs}]/u;

/** Converts an uplink for the higher modules, or returns why it is invalid. `receivedAt`: its arrival time. */
export function readUplink(
  identity: GatewayIdentity,
  uplink: Uplink,
  receivedAt: number,
): UplinkMessage | InvalidUplink {
  const clientDeviceId = GATEWAY.findClientDeviceId(uplink.clientDeviceId);
  if (!isValidUplinkId(uplink.uplinkId))
    return invalid('uplink_id_invalid', `use 1 to ${MAX_ID_LENGTH} characters without control characters`);
  if (clientDeviceId === undefined) return invalid('client_device_id_invalid', `use ${GATEWAY.clientDeviceIdForm}`);
  const payload = findTimeOrPortError(uplink) ?? readPayload(uplink.payload);
  if ('reason' in payload) return payload;
  const { organizationId, connectionId } = identity;
  const { uplinkId, time, fPort } = uplink;
  return {
    organizationId,
    connectionId,
    identity: { kind: 'id', uplinkId },
    clientDeviceId,
    receivedAt,
    time: time && fromTimestamp(time),
    timeSource: 'gateway',
    clock: getClockId(identity),
    payload,
    fPort,
  };
}

/**
 * Returns whether a text is a valid uplink id. The first length check avoids splitting a very long text: a character
 * has at most 2 UTF-16 code units.
 */
function isValidUplinkId(text: string): boolean {
  return (
    text !== '' &&
    text.length <= 2 * MAX_ID_LENGTH &&
    Array.from(text).length <= MAX_ID_LENGTH &&
    !UNUSABLE_IN_ID.test(text)
  );
}

/** Returns why the time or the port is invalid; undefined if both are valid. */
function findTimeOrPortError({ time, fPort }: Uplink): InvalidUplink | undefined {
  if (time && !isValidTimestamp(time))
    return invalid('time_invalid', 'set a time between the years 1 and 9999, or none');
  if (fPort !== undefined && (fPort < 0 || fPort > MAX_F_PORT))
    return invalid('f_port_invalid', `use 0 to ${MAX_F_PORT}, or none`);
  return undefined;
}

/** Converts the payload, or returns why it is invalid. */
function readPayload(payload: Uplink['payload']): UplinkMessage['payload'] | InvalidUplink {
  if (payload === undefined) return invalid('payload_missing', 'set json or bytes');
  // The deserializer sets no value for JSON that is nested too deeply.
  if (payload.value === undefined) return invalid('payload_unreadable', `use JSON with at most ${MAX_DEPTH} levels`);
  // The deserializer sets this object for JSON with the key.
  if (payload.value === INVALID_KEY_PAYLOAD) return invalid('payload_key_refused', 'omit the member `__proto__`');
  if (payload.$case === 'json') return readJson(payload.value);
  const { length } = payload.value;
  return length > MAX_BYTES ? tooLarge(length) : { kind: 'bytes', bytes: payload.value };
}

/** Returns the JSON payload, or why it is invalid or too large. */
function readJson(value: JsonObject): UplinkMessage['payload'] | InvalidUplink {
  const error = findJsonError(value);
  if (error) return error;
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BYTES) return tooLarge(bytes);
  const mayHaveNonFinite = text.includes('null'); // JSON.stringify writes these numbers as null
  return { kind: 'json', value: mayHaveNonFinite ? (replaceNonFinite(value) as JsonObject) : value };
}

/** Returns why a decoded value is not valid JSON; undefined if it is. Visits each value once, without recursion. */
function findJsonError(root: unknown): InvalidUplink | undefined {
  const pending: { readonly value: unknown; readonly depth: number }[] = [{ value: root, depth: 1 }];
  for (let node = pending.pop(); node; node = pending.pop()) {
    const { value, depth } = node;
    if (depth > MAX_DEPTH) return invalid('payload_too_deep', `nest at most ${MAX_DEPTH} levels`);
    const error = findValueError(value);
    if (error !== undefined) return invalid('payload_invalid', error);
    if (typeof value === 'object' && value !== null)
      pending.push(...Object.values(value).map((inner: unknown) => ({ value: inner, depth: depth + 1 })));
  }
  return undefined;
}

/** Validates one value without its inner values; of an object, its keys. Returns how to correct it, or undefined. */
function findValueError(value: unknown): string | undefined {
  if (value === undefined)
    return 'use only JSON values: null, numbers, strings, booleans, and lists and objects of them';
  const texts = typeof value === 'object' && value !== null ? Object.keys(value) : [value];
  // Invalid UTF-8 was decoded to lone surrogates.
  const isUtf8 = texts.every((text) => typeof text !== 'string' || text.isWellFormed());
  return isUtf8 ? undefined : 'use text in UTF-8';
}

function tooLarge(bytes: number): InvalidUplink {
  return invalid('payload_too_large', `the payload has ${bytes} bytes; send at most ${MAX_BYTES}`);
}

function invalid(code: string, expected: string): InvalidUplink {
  return { reason: `${code}: ${expected}` };
}
