import type { UplinkState } from './uplinkSteps';

/** The source paths of bytes that were not decoded: in bytes, in ChirpStack's JSON, and in JSON that is no object. */
const RAW_PATHS: ReadonlySet<string> = new Set(['bytes', 'data', 'value']);

/**
 * Whether the server could read what the device sent: the payload has at least one value, or a mapped sensor takes its
 * undecoded bytes. Not readable: an empty payload, bytes that nothing decodes, and bytes whose decoder failed.
 */
export function isReadable(state: Pick<UplinkState, 'message' | 'decoded' | 'accepted'>): boolean {
  const { message, accepted } = state;
  if (hasValue(findContent(state))) return true;
  const bytes = message.payload.kind === 'bytes' ? message.payload.bytes : message.encoded;
  const hasBytes = bytes !== undefined && bytes.length > 0;
  return hasBytes && accepted.some(({ sourcePath }) => RAW_PATHS.has(sourcePath));
}

/**
 * Returns the decoded values of the device; undefined if there are none. The fields that a network server adds about
 * the reception of a frame are not values of the device.
 */
function findContent({ message, decoded }: Pick<UplinkState, 'message' | 'decoded'>): unknown {
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
