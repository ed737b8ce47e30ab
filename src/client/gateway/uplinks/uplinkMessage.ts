import { randomUUID } from 'node:crypto';
import { types } from 'node:util';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { Uplink } from '../../gen/gateway/v1/gateway_service';
import { GatewayError } from '../gatewayError';
import type { GatewayUplink } from '../options';
import type { KeptUplink } from '../store/gatewayStore';
import { findJsonFault } from './jsonFault';

// Field 2 of Uplink, length-delimited.
const CLIENT_DEVICE_ID = (2 << 3) | 2;
const WIRE_TYPE = 7;
const LONGEST_ID = 64;
const LONGEST_DEVICE_ID = 255;
const MOST_BYTES = 64 * 1024;
const LARGEST_PORT = 255;
const UNUSABLE_IN_ID = /[\p{Cc}\p{Cs}]/u;
const UNUSABLE_IN_DEVICE_ID = /[\p{Cc}\p{Cs}\u2028\u2029]/u;
// The years 1 to 9999.
const FIRST_TIME = -62_135_596_800_000;
const LAST_TIME = 253_402_300_799_999;

/** An uplink as it is kept and as it leaves. Throws GatewayError `uplink_invalid` for one that the server would not take, naming the field. */
export function uplinkMessage(given: GatewayUplink): KeptUplink {
  const wrong = findMistake(given);
  if (wrong !== undefined) throw new GatewayError('uplink_invalid', wrong);
  const { clientDeviceId, payload, time, fPort, uplinkId = randomUUID() } = given;
  const sent: Uplink['payload'] = payload.kind === 'json' ? { $case: 'json', value: payload.value } : { $case: 'bytes', value: payload.bytes };
  const message = Uplink.encode({ uplinkId, clientDeviceId, time: time ?? new Date(), payload: sent, fPort }).finish();
  return { uplinkId, message };
}

/** The device of a message that was made here, without reading the rest of it. */
export function clientDeviceIdOf(message: Uint8Array): string {
  const reader = new BinaryReader(message);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === CLIENT_DEVICE_ID) return reader.string();
    reader.skip(tag & WIRE_TYPE);
  }
  return '';
}

/** What the server would reject it for. Callers without types may give anything. */
function findMistake(uplink: GatewayUplink): string | undefined {
  if (typeof uplink !== 'object' || (uplink as unknown) === null) return 'an uplink must be an object with clientDeviceId and payload';
  return findIdMistake(uplink) ?? findNumberMistake(uplink) ?? findPayloadMistake(uplink.payload);
}

function findIdMistake({ uplinkId, clientDeviceId }: GatewayUplink): string | undefined {
  if (uplinkId !== undefined && !isText(uplinkId, LONGEST_ID, UNUSABLE_IN_ID)) return `uplinkId must be 1 to ${LONGEST_ID} characters, none of them a control character; or leave it out`;
  const device: unknown = typeof clientDeviceId === 'string' ? clientDeviceId.trim() : clientDeviceId;
  return isText(device, LONGEST_DEVICE_ID, UNUSABLE_IN_DEVICE_ID) ? undefined : `clientDeviceId must be 1 to ${LONGEST_DEVICE_ID} characters after trimming, none of them a control character`;
}

function isText(text: unknown, longest: number, unusable: RegExp): boolean {
  return typeof text === 'string' && text !== '' && text.length <= 2 * longest && (text.length <= longest || Array.from(text).length <= longest) && !unusable.test(text);
}

function findNumberMistake({ time, fPort }: GatewayUplink): string | undefined {
  if (time !== undefined && !isTime(time)) return 'time must be a valid Date between the years 1 and 9999; or leave it out for now';
  if (fPort !== undefined && !(Number.isInteger(fPort) && fPort >= 0 && fPort <= LARGEST_PORT)) return `fPort must be a whole number from 0 to ${LARGEST_PORT}; or leave it out`;
  return undefined;
}

function isTime(time: unknown): boolean {
  return types.isDate(time) && time.getTime() >= FIRST_TIME && time.getTime() <= LAST_TIME;
}

function findPayloadMistake(payload: GatewayUplink['payload'] | undefined): string | undefined {
  if (payload?.kind === 'json') return findValueMistake(payload.value);
  if (payload?.kind === 'bytes') return findBytesMistake(payload.bytes);
  return "payload must be {kind: 'json', value} or {kind: 'bytes', bytes}";
}

function findValueMistake(value: unknown): string | undefined {
  const fault = findJsonFault(value);
  return fault && `payload.value${fault.path} ${fault.right}`;
}

function findBytesMistake(bytes: unknown): string | undefined {
  if (!types.isUint8Array(bytes)) return 'payload.bytes must be a Uint8Array';
  return bytes.length > MOST_BYTES ? `payload.bytes must be at most ${MOST_BYTES} bytes, and is ${bytes.length}` : undefined;
}
