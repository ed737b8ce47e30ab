import { connect, type ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import { isClientCertificateRequired } from '../clientCertificate';

/** The health of a server. */
export interface HealthStatus {
  /** `silent`: no response, or not the response of a Plantroom server. */
  readonly state: 'serving' | 'not_serving' | 'silent';
  /** The observation, and what to do. */
  readonly message: string;
}

const TIMEOUT_MS = 3000;
// An empty HealthCheckRequest (all services) and the response {status: SERVING}, each after the five-byte gRPC prefix.
const REQUEST = Buffer.alloc(5);
const SERVING = Buffer.from([0, 0, 0, 0, 2, 8, 1]);
const SILENT = 'check its log, and run "plantroom doctor"';

/**
 * Calls grpc.health.v1 at `host:port` for the health of all services. Uses plain HTTP/2, because loading a gRPC client
 * takes longer than the call. The certificate is not verified: the call contains no secret, and a supervisor cannot fix
 * a certificate. Waits at most 3 s. Never throws.
 */
export async function queryHealth(address: string, plaintext: boolean): Promise<HealthStatus> {
  const session = connect(`${plaintext ? 'http' : 'https'}://${address}`, { rejectUnauthorized: false });
  let socket: Socket | undefined;
  session.once('connect', (_, connected) => (socket = connected));
  try {
    const response = await requestHealth(session);
    if (response.equals(SERVING)) return { state: 'serving', message: `serving on ${address}` };
    // Another status has the same length.
    return response.length === SERVING.length
      ? {
          state: 'not_serving',
          message:
            'running but not serving: the server is starting or stopping, or its database is unavailable; check its log and /readyz',
        }
      : {
          state: 'silent',
          message: `the program that listens on ${address} does not respond like a Plantroom server; ${SILENT}`,
        };
  } catch (error) {
    return isClientCertificateRequired(error)
      ? {
          state: 'serving',
          message: `listening on ${address}; not checked further, because it requires a client certificate`,
        }
      : { state: 'silent', message: `no response on ${address} (${(error as Error).message}); ${SILENT}` };
  } finally {
    session.destroy();
    // A session that the server has ended waits until the server closes the socket too.
    socket?.destroy();
  }
}

/** Sends the health request and returns the body of the response, without interpreting it. */
async function requestHealth(session: ClientHttp2Session): Promise<Buffer> {
  return await new Promise<Buffer>((resolve, reject) => {
    session.setTimeout(TIMEOUT_MS, () => reject(new Error(`no response within ${TIMEOUT_MS / 1000} s`)));
    session.once('error', reject);
    const stream = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    const parts: Buffer[] = [];
    stream.on('data', (part: Buffer) => parts.push(part));
    stream.once('error', reject).once('end', () => resolve(Buffer.concat(parts)));
    stream.end(REQUEST);
  });
}
