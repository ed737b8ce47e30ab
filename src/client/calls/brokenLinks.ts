import { status, type ServiceError } from '@grpc/grpc-js';

/** Whether the server cannot have seen the call: grpc-js says it in words alone. */
export function neverLeft({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && /^(No connection established|Name resolution failed)/.test(details);
}

// What grpc-js itself says where a stream was reset or the connection closed: a server that goes down without grace does so, and some proxies.
const CUT: Readonly<Partial<Record<status, RegExp>>> = {
  [status.CANCELLED]: /^Call cancelled$/,
  [status.INTERNAL]: /^Received RST_STREAM with code/,
  // gRPC itself makes a call again after these, but not once its headers are there.
  [status.UNAVAILABLE]: /^(Connection dropped|(read|write) E[A-Z]+)$/,
  [status.UNKNOWN]: /^No status information received$/,
};

/** Whether the connection was cut before the answer came, so that nobody knows whether the call was done; if it was not ended from here. */
export function wasCut({ code, details, metadata }: ServiceError): boolean {
  return CUT[code]?.test(details) === true && !metadata?.get('grpc-status-details-bin').length;
}
