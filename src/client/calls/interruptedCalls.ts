import { status, type ServiceError } from '@grpc/grpc-js';

/** Returns whether the call was never sent. grpc-js only reports this in the text of the error. */
export function wasNotSent({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && /^(No connection established|Name resolution failed)/.test(details);
}

// The errors that grpc-js creates for a reset stream or a closed connection. Servers that are killed and some proxies
// cause them.
const INTERRUPTED: Readonly<Partial<Record<status, RegExp>>> = {
  [status.CANCELLED]: /^Call cancelled$/,
  [status.INTERNAL]: /^Received RST_STREAM with code/,
  // gRPC retries a call after these errors, but not after it received the response headers.
  [status.UNAVAILABLE]: /^(Connection dropped|(read|write) E[A-Z]+)$/,
  [status.UNKNOWN]: /^No status information received$/,
};

/**
 * Returns whether the connection broke before the response arrived, so that it is unknown whether the call was
 * executed. A call that this client cancelled looks the same: the caller must check that.
 */
export function wasInterrupted({ code, details, metadata }: ServiceError): boolean {
  return INTERRUPTED[code]?.test(details) === true && !metadata?.get('grpc-status-details-bin').length;
}
