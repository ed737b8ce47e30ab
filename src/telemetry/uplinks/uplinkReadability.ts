import { findRawBytes, type UplinkMessage } from '../../connections';
import type { Decoded } from '../decoding/uplinkDecoder';
import type { SensorValue } from '../readings/readings';

/** An uplink with what was read from it. */
interface ReadUplink {
  readonly message: UplinkMessage;
  readonly decoded: Decoded;
  /** The values that the mapped sensors of the device take. */
  readonly accepted: readonly SensorValue[];
}

/** The source paths of bytes that were not decoded: in bytes, in ChirpStack's JSON, and in JSON that is no object. */
const RAW_PATHS: ReadonlySet<string> = new Set(['bytes', 'data', 'value']);

/**
 * Whether the server could read what the device sent: the payload has at least one value, or a mapped sensor takes its
 * undecoded bytes. Not readable: an empty payload, bytes that nothing decodes, and bytes whose decoder failed.
 */
export function isReadable(uplink: ReadUplink): boolean {
  const { message, accepted } = uplink;
  if (hasValue(findContent(uplink))) return true;
  return findRawBytes(message) !== undefined && accepted.some(({ sourcePath }) => RAW_PATHS.has(sourcePath));
}

/**
 * Returns the decoded values of the device; undefined if there are none. The fields that a network server adds about
 * the reception of a frame are not values of the device.
 */
function findContent({ message, decoded }: ReadUplink): unknown {
  const { payload, fCnt } = message;
  if ('decodeError' in decoded) return undefined;
  if ('object' in decoded) return decoded.object;
  if (payload.kind === 'bytes') return undefined;
  const isLorawanFrame = fCnt !== undefined;
  return isLorawanFrame ? payload.value['object'] : payload.value;
}

/** Whether JSON has a value other than null, empty objects and empty lists. */
function hasValue(content: unknown): boolean {
  if (content === undefined || content === null) return false;
  return typeof content !== 'object' || Object.values(content).some(hasValue);
}
