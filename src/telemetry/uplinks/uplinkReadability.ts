import { findRawBytes, type UplinkMessage } from '../../connections';
import type { Binding } from '../../devices';
import { InexactNumber } from '../../kernel/inexactNumber';
import type { Decoded } from '../decoding/uplinkDecoder';
import type { SensorValue } from '../readings/readings';

/**
 * Why an uplink that is stored has no values for sensors. `unreadable`: the device is expected to send fields, but its
 * payload has none. `undecoded`: the decoder returned nothing usable.
 */
export interface UplinkFailure {
  readonly kind: 'unreadable' | 'undecoded';
  /** A code, a colon and a description. */
  readonly reason: string;
}

/** An uplink with what was read from it. */
interface ReadUplink {
  readonly message: UplinkMessage;
  readonly decoded: Decoded;
  readonly failure: UplinkFailure | undefined;
  /** The values that the mapped sensors of the device take. */
  readonly accepted: readonly SensorValue[];
}

/** The name that a source path begins with. */
const FIRST_NAME = /^[^.[]*/;
/** The source paths of bytes that were not decoded. */
const BYTES_PATHS: ReadonlySet<string> = new Set(['bytes', 'fPort']);
/** The source path of JSON that is not an object. */
const VALUE_PATH = 'value';
/** The source paths of a network server: the bytes of the device, and what it decoded from them. */
const NETWORK_BYTES_PATH = 'data';
const NETWORK_OBJECT_PATH = 'object';
/** All source paths of content that was not decoded. */
const RAW_PATHS: ReadonlySet<string> = new Set(['bytes', NETWORK_BYTES_PATH, VALUE_PATH]);

const NOT_JSON =
  'not_json: the payload is bytes, but the sensors of the device are mapped to other fields, and it has no profile that decodes bytes';
const NOT_AN_OBJECT =
  'not_an_object: the payload is JSON without fields, but the sensors of the device are mapped to fields; send a JSON object, encoded once';
const NOT_DECODED =
  'not_decoded: the network server sent the bytes of the device without `object`, but sensors are mapped to fields of it, and the device has no profile that decodes bytes; check the codec of the network server';

/**
 * Returns why an uplink has no values for sensors; undefined if it has some, or if the device is expected to send what
 * was not decoded: sensors are mapped to that, or to nothing, and the bytes do not look like JSON.
 */
export function findUplinkFailure({
  message,
  binding,
  decoded,
}: {
  readonly message: UplinkMessage;
  /** Undefined for an unbound device. */
  readonly binding: Binding | undefined;
  readonly decoded: Decoded;
}): UplinkFailure | undefined {
  if ('decodeError' in decoded) return { kind: 'undecoded', reason: decoded.decodeError };
  if ('object' in decoded || findRawBytes(message) === undefined) return undefined;
  const reason = findReason(
    message,
    (binding?.mapped ?? []).map(({ sourcePath }) => sourcePath),
  );
  return reason === undefined ? undefined : { kind: 'unreadable', reason };
}

/** Returns why undecoded content has no values for the sensors that are mapped to these source paths. */
function findReason(message: UplinkMessage, paths: readonly string[]): string | undefined {
  if (isLorawanFrame(message))
    return hasField(paths, NETWORK_OBJECT_PATH) && !paths.includes(NETWORK_BYTES_PATH) ? NOT_DECODED : undefined;
  if (paths.some((path) => BYTES_PATHS.has(path))) return undefined;
  if (message.payload.kind === 'bytes') return message.unreadable ?? (paths.length > 0 ? NOT_JSON : undefined);
  return paths.length > 0 && !hasField(paths, VALUE_PATH) ? NOT_AN_OBJECT : undefined;
}

/** Whether one of the source paths is this field of the payload, or leads into it. */
function hasField(paths: readonly string[], field: string): boolean {
  return paths.some((path) => FIRST_NAME.exec(path)?.[0] === field);
}

/**
 * Whether the server could read what the device sent: the payload has at least one value, or a mapped sensor takes its
 * undecoded bytes. Not readable: an empty payload, and everything with a failure.
 */
export function isReadable(uplink: ReadUplink): boolean {
  const { message, failure, accepted } = uplink;
  if (failure) return false;
  if (hasValue(findContent(uplink))) return true;
  return findRawBytes(message) !== undefined && accepted.some(({ sourcePath }) => RAW_PATHS.has(sourcePath));
}

/**
 * Returns the decoded values of the device; undefined if there are none. The fields that a network server adds about
 * the reception of a frame are not values of the device.
 */
function findContent({ message, decoded }: ReadUplink): unknown {
  const { payload } = message;
  if ('object' in decoded) return decoded.object;
  if (payload.kind === 'bytes') return undefined;
  return isLorawanFrame(message) ? payload.value[NETWORK_OBJECT_PATH] : payload.value;
}

function isLorawanFrame({ fCnt }: UplinkMessage): boolean {
  return fCnt !== undefined;
}

/** Whether JSON has a value other than null, empty objects and empty lists. A number that is not finite is no value. */
function hasValue(content: unknown): boolean {
  if (content === undefined || content === null) return false;
  if (content instanceof InexactNumber) return Number.isFinite(content.nearest);
  return typeof content !== 'object' || Object.values(content).some(hasValue);
}
