// The tag of field 4 of AttachRequest, length-delimited.
const UPLINK_TAG = (4 << 3) | 2;
// The varint size of a length below 4 GiB.
const MAX_VARINT_BYTES = 5;

/**
 * Wraps an encoded `Uplink` message in an AttachRequest without encoding it again, so that exactly the stored bytes are
 * sent.
 */
export function buildUplinkFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(1 + MAX_VARINT_BYTES + message.length);
  frame[0] = UPLINK_TAG;
  let offset = 1;
  let rest = message.length;
  // A varint has seven bits per byte, the lowest first. The highest bit says that more bytes follow.
  for (; rest > 127; rest >>>= 7) frame[offset++] = (rest & 127) | 128;
  frame[offset++] = rest;
  frame.set(message, offset);
  return frame.subarray(0, offset + message.length);
}
