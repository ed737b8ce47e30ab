import { BinaryReader } from '@bufbuild/protobuf/wire';
import { AttachRequest, GatewayServiceService, type Uplink } from '../../../gen/gateway/v1/gateway_service';
import { PROTO_KEY } from '../../../kernel/jsonValue';
import { INVALID_KEY_PAYLOAD } from './uplinkReader';

// Protobuf encodes a field as its tag and its value. The tag is the number of the field in the proto, shifted left by
// 3, plus the wire type in the lowest 3 bits.
const LENGTH_DELIMITED = 2;
const WIRE_TYPE_MASK = 7;
const UPLINK_TAG = (4 << 3) | LENGTH_DELIMITED;
const UPLINK_ID_TAG = (1 << 3) | LENGTH_DELIMITED;
const CLIENT_DEVICE_ID_TAG = (2 << 3) | LENGTH_DELIMITED;

/** Replaces text that is not UTF-8: an unpaired surrogate, which no field accepts. */
const INVALID_TEXT = '\ud800';
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Reads an undecodable value as one that violates the rules of its field, so that the message is rejected with a
 * response: text that is not UTF-8, and integers beyond 2^53, for which generated code throws.
 */
class FaultTolerantReader extends BinaryReader {
  constructor(bytes: Uint8Array) {
    super(bytes, decodeText);
  }

  /** Returns the integer, or the greatest or smallest safe integer if it does not fit into 53 bits. */
  override int64(): bigint | string {
    const value = BigInt(super.int64());
    const fitsIn53Bits = BigInt.asIntN(53, value) === value;
    if (fitsIn53Bits) return value;
    return BigInt(value < 0n ? Number.MIN_SAFE_INTEGER : Number.MAX_SAFE_INTEGER);
  }
}

/** Decodes UTF-8; invalid bytes become INVALID_TEXT. */
function decodeText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    return INVALID_TEXT;
  }
}

/**
 * GatewayService with a tolerant decoder. An uplink with an unreadable payload (nested too deeply) is decoded without
 * it. An uplink with a key `__proto__`, which would be lost, is decoded with INVALID_KEY_PAYLOAD instead. Both are then
 * acknowledged with REJECTED. Otherwise the stream would end, and the gateway would send that uplink again
 * indefinitely.
 */
export const gatewayDefinition = {
  attach: { ...GatewayServiceService.attach, requestDeserialize: readAttachRequest, isOwnReader: true },
};

/**
 * Decodes a message of a gateway. An unreadable uplink is decoded without its payload, and an uplink with the key
 * `__proto__` with INVALID_KEY_PAYLOAD, so that it is rejected with a response instead of ending the stream.
 */
function readAttachRequest(bytes: Buffer): AttachRequest {
  try {
    const request = AttachRequest.decode(new FaultTolerantReader(bytes));
    const uplink = request.message?.$case === 'uplink' ? request.message.value : undefined;
    if (uplink?.payload?.$case === 'json' && bytes.includes(PROTO_KEY)) uplink.payload.value = INVALID_KEY_PAYLOAD;
    return request;
  } catch (error) {
    const uplink = decodeUplinkIds(bytes);
    if (!uplink) throw error;
    return { message: { $case: 'uplink', value: uplink } };
  }
}

/**
 * Decodes only the ids of an uplink; undefined if the message is not an uplink or has no id. Throws if the bytes are
 * not a message. In protobuf, each field is a tag (field number and wire type) and a value; values with the wire type
 * LENGTH_DELIMITED start with their length.
 */
function decodeUplinkIds(bytes: Buffer): Uplink | undefined {
  const reader = new FaultTolerantReader(bytes);
  const tag = reader.uint32();
  if (tag !== UPLINK_TAG) return undefined;
  const uplinkLength = reader.uint32();
  if (uplinkLength !== reader.len - reader.pos) return undefined; // the uplink must be the only field
  const uplink: Uplink = {
    uplinkId: '',
    clientDeviceId: '',
    time: undefined,
    payload: { $case: 'json', value: undefined },
    fPort: undefined,
  };
  while (reader.pos < reader.len) {
    const fieldTag = reader.uint32();
    const wireType = fieldTag & WIRE_TYPE_MASK;
    if (fieldTag === UPLINK_ID_TAG) uplink.uplinkId = reader.string();
    else if (fieldTag === CLIENT_DEVICE_ID_TAG) uplink.clientDeviceId = reader.string();
    else if (wireType === LENGTH_DELIMITED)
      reader.bytes(); // unlike `skip`, throws if the value exceeds the message
    else reader.skip(wireType);
  }
  return uplink.uplinkId === '' ? undefined : uplink;
}
