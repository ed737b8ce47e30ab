import { randomUUID } from 'node:crypto';
import { types } from 'node:util';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { Uplink } from '../../gen/gateway/v1/gateway_service';
import { GatewayError } from '../gatewayError';
import type { GatewayUplink } from '../options';
import type { StoredUplink } from '../store/gatewayStore';
import { findJsonError } from './jsonError';

// The tag of field 2 of Uplink, length-delimited.
const CLIENT_DEVICE_ID_TAG = (2 << 3) | 2;
const WIRE_TYPE_MASK = 7;
const MAX_ID_LENGTH = 64;
const MAX_DEVICE_ID_LENGTH = 255;
const MAX_BYTES = 64 * 1024;
const MAX_F_PORT = 255;
const INVALID_IN_ID = /[\p{Cc}\p{Cs}]/u;
const INVALID_IN_DEVICE_ID = /[\p{Cc}\p{Cs}\u2028\u2029]/u;
// The times that a protobuf Timestamp allows: the years 1 to 9999.
const MIN_TIME = -62_135_596_800_000;
const MAX_TIME = 253_402_300_799_999;

/**
 * Validates an uplink and encodes it for the store and for sending. Throws GatewayError `uplink_invalid`, which names
 * the invalid field, for an uplink that the server would reject.
 */
export function encodeUplink(uplink: GatewayUplink): StoredUplink {
  const violation = findViolation(uplink);
  if (violation !== undefined) throw new GatewayError('uplink_invalid', violation);
  const { clientDeviceId, payload, time, fPort, uplinkId = randomUUID() } = uplink;
  const encodedPayload: Uplink['payload'] =
    payload.kind === 'json' ? { $case: 'json', value: payload.value } : { $case: 'bytes', value: payload.bytes };
  const message = Uplink.encode({
    uplinkId,
    clientDeviceId,
    time: time ?? new Date(),
    payload: encodedPayload,
    fPort,
  }).finish();
  return { uplinkId, message };
}

/**
 * Reads the device id from a message that this library encoded, without decoding the rest. A message is a sequence of
 * fields, each with a tag: the field number, and the wire type, which says how to skip the field.
 */
export function getClientDeviceId(message: Uint8Array): string {
  const reader = new BinaryReader(message);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === CLIENT_DEVICE_ID_TAG) return reader.string();
    reader.skip(tag & WIRE_TYPE_MASK);
  }
  return '';
}

/** Finds the first violation. Checks types at run time, because callers without TypeScript may pass any value. */
function findViolation(uplink: GatewayUplink): string | undefined {
  if (typeof uplink !== 'object' || (uplink as unknown) === null)
    return 'an uplink must be an object with clientDeviceId and payload';
  return findIdViolation(uplink) ?? findNumberViolation(uplink) ?? findPayloadViolation(uplink.payload);
}

function findIdViolation({ uplinkId, clientDeviceId }: GatewayUplink): string | undefined {
  if (uplinkId !== undefined && !isText(uplinkId, MAX_ID_LENGTH, INVALID_IN_ID))
    return `uplinkId must be 1 to ${MAX_ID_LENGTH} characters without control characters and lone surrogates; or omit it`;
  const device: unknown = typeof clientDeviceId === 'string' ? clientDeviceId.trim() : clientDeviceId;
  return isText(device, MAX_DEVICE_ID_LENGTH, INVALID_IN_DEVICE_ID)
    ? undefined
    : `clientDeviceId must be 1 to ${MAX_DEVICE_ID_LENGTH} characters after trimming, without control characters, line separators and lone surrogates`;
}

/**
 * Whether the value is a text of 1 to `maxLength` characters (code points) without invalid ones. A text of more than
 * twice as many UTF-16 units is rejected without counting.
 */
function isText(text: unknown, maxLength: number, invalid: RegExp): boolean {
  return (
    typeof text === 'string' &&
    text !== '' &&
    text.length <= 2 * maxLength &&
    (text.length <= maxLength || Array.from(text).length <= maxLength) &&
    !invalid.test(text)
  );
}

function findNumberViolation({ time, fPort }: GatewayUplink): string | undefined {
  if (time !== undefined && !isTime(time))
    return 'time must be a valid Date between the years 1 and 9999; or omit it for the current time';
  if (fPort !== undefined && !(Number.isInteger(fPort) && fPort >= 0 && fPort <= MAX_F_PORT))
    return `fPort must be a whole number from 0 to ${MAX_F_PORT}; or omit it`;
  return undefined;
}

function isTime(time: unknown): boolean {
  return types.isDate(time) && time.getTime() >= MIN_TIME && time.getTime() <= MAX_TIME;
}

function findPayloadViolation(payload: GatewayUplink['payload'] | undefined): string | undefined {
  if (payload?.kind === 'json') return findValueViolation(payload.value);
  if (payload?.kind === 'bytes') return findBytesViolation(payload.bytes);
  return "payload must be {kind: 'json', value} or {kind: 'bytes', bytes}";
}

function findValueViolation(value: unknown): string | undefined {
  const error = findJsonError(value);
  return error && `payload.value${error.path} ${error.expected}`;
}

function findBytesViolation(bytes: unknown): string | undefined {
  if (!types.isUint8Array(bytes)) return 'payload.bytes must be a Uint8Array';
  return bytes.length > MAX_BYTES
    ? `payload.bytes must be at most ${MAX_BYTES} bytes (got ${bytes.length})`
    : undefined;
}
