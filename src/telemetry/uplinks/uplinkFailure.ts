import type { UplinkMessage } from '../../connections';
import type { Binding } from '../../devices';
import type { Decoded } from '../decoding/uplinkDecoder';

/**
 * Why an uplink that is stored has no values for sensors. `unreadable`: the device is expected to send JSON, but its
 * payload is stored as bytes. `undecoded`: the decoder returned nothing usable.
 */
export interface UplinkFailure {
  readonly kind: 'unreadable' | 'undecoded';
  /** A code, a colon and a description. */
  readonly reason: string;
}

/** The source paths of an undecoded payload. */
const BYTES_PATHS: ReadonlySet<string> = new Set(['bytes', 'fPort']);

/**
 * Returns why an uplink has no values for sensors; undefined if it has some, or if the device is expected to send bytes:
 * it has a decoder or a mapping of the bytes, or no mapping, and the bytes do not look like JSON.
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
  const { payload, unreadable } = message;
  if ('decodeError' in decoded) return { kind: 'undecoded', reason: decoded.decodeError };
  if (payload.kind !== 'bytes' || payload.bytes.length === 0 || 'object' in decoded) return undefined;
  const paths = binding?.mapped.map(({ sourcePath }) => sourcePath) ?? [];
  if (paths.some((path) => BYTES_PATHS.has(path))) return undefined;
  if (unreadable !== undefined) return { kind: 'unreadable', reason: unreadable };
  return paths.length > 0 ? { kind: 'unreadable', reason: NOT_JSON } : undefined;
}

const NOT_JSON =
  'not_json: the payload is bytes, but the sensors of the device are mapped to other fields, and it has no profile that decodes bytes';
