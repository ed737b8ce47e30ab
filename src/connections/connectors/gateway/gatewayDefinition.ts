import { BinaryReader } from '@bufbuild/protobuf/wire';
import { AttachRequest, GatewayServiceService, type Uplink } from '../../../gen/gateway/v1/gateway_service';
import { PROTO_KEY } from '../../../kernel/jsonValue';
import { REFUSED_KEY } from './uplinkReader';

const UPLINK = (4 << 3) | 2;
const UPLINK_ID = (1 << 3) | 2;
const CLIENT_DEVICE_ID = (2 << 3) | 2;
const LENGTH_DELIMITED = 2;

/**
 * GatewayService as the server reads it: an uplink whose payload cannot be read (it is nested too deep) comes in without it, one
 * with a key `__proto__`, which would get lost, with REFUSED_KEY in its place, so that both can be answered with REJECTED. Otherwise the stream would end, and a gateway would send that uplink again for ever.
 */
export const gatewayDefinition = {
  attach: { ...GatewayServiceService.attach, requestDeserialize: readAttachRequest },
};

function readAttachRequest(bytes: Buffer): AttachRequest {
  try {
    const request = AttachRequest.decode(bytes);
    const uplink = request.message?.$case === 'uplink' ? request.message.value : undefined;
    if (uplink?.payload?.$case === 'json' && bytes.includes(PROTO_KEY)) uplink.payload.value = REFUSED_KEY;
    return request;
  } catch (error) {
    const uplink = findUplink(bytes);
    if (!uplink) throw error;
    return { message: { $case: 'uplink', value: uplink } };
  }
}

/** The names of an uplink alone. Throws for bytes that are no message at all. */
function findUplink(bytes: Buffer): Uplink | undefined {
  const reader = new BinaryReader(bytes);
  if (reader.uint32() !== UPLINK || reader.uint32() !== reader.len - reader.pos) return undefined;
  const uplink: Uplink = { uplinkId: '', clientDeviceId: '', time: undefined, payload: { $case: 'json', value: undefined }, fPort: undefined };
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === UPLINK_ID) uplink.uplinkId = reader.string();
    else if (tag === CLIENT_DEVICE_ID) uplink.clientDeviceId = reader.string();
    else if ((tag & 7) === LENGTH_DELIMITED) reader.bytes();
    else reader.skip(tag & 7);
  }
  return uplink.uplinkId === '' ? undefined : uplink;
}
