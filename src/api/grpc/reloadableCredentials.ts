import { ServerCredentials } from '@grpc/grpc-js';
import type { SecureServerOptions } from 'node:http2';
import type { ServerTls } from '../tls/serverTls';

/** The server certificate for grpc-js. New connections use a renewed certificate without a restart. */
export class ReloadableCredentials extends ServerCredentials {
  constructor(tls: ServerTls, http2: SecureServerOptions) {
    super({ ...http2, ...tls.serverOptions }, tls.getContext());
    tls.onChange(() => this.updateSecureContextOptions(tls.getContext()));
  }

  override _equals(other: ServerCredentials): boolean {
    return other === this;
  }
}
