// Field 4 of AttachRequest, length-delimited.
const UPLINK_TAG = (4 << 3) | 2;
// Of a length below 4 GiB.
const LONGEST_VARINT = 5;

/** The AttachRequest that holds an `Uplink` message, without encoding that anew: what leaves is what is stored. */
export function uplinkFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(1 + LONGEST_VARINT + message.length);
  frame[0] = UPLINK_TAG;
  let at = 1;
  let rest = message.length;
  for (; rest > 127; rest >>>= 7) frame[at++] = (rest & 127) | 128;
  frame[at++] = rest;
  frame.set(message, at);
  return frame.subarray(0, at + message.length);
}
