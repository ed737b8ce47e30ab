import { ServerCredentials } from '@grpc/grpc-js';
import type { SecureServerOptions } from 'node:http2';
import type { ServerTls } from '../tls/serverTls';

/** The certificate of the server for grpc-js; a new one is taken for new connections without a restart. */
export class ReloadableCredentials extends ServerCredentials {
  constructor(tls: ServerTls, http2: SecureServerOptions) {
    super({ ...http2, ...tls.serverOptions }, tls.context());
    tls.onChange(() => this.updateSecureContextOptions(tls.context()));
  }

  override _equals(other: ServerCredentials): boolean {
    return other === this;
  }
}
