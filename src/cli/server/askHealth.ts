import { connect, type ClientHttp2Session } from 'node:http2';

/** What a server says of itself. */
export interface Answer {
  /** `silent`: it does not answer, or not as a Plantroom does. */
  readonly state: 'serving' | 'not_serving' | 'silent';
  /** What was seen, and what to do. */
  readonly message: string;
}

const WAIT_MS = 3000;
// An empty HealthCheckRequest (all services), and the answer {status: SERVING}, each behind gRPC's five bytes.
const REQUEST = Buffer.alloc(5);
const SERVING = Buffer.from([0, 0, 0, 0, 2, 8, 1]);
const SILENT = 'look at its log, and let `plantroom doctor` look at the rest';

/**
 * Asks grpc.health.v1 at `host:port` whether all of it serves, by HTTP/2 alone: loading a gRPC client would take longer than the question.
 * The certificate is not checked: nothing secret is said, and what supervises a server cannot mend a certificate. Never throws.
 */
export async function askHealth(address: string, plaintext: boolean): Promise<Answer> {
  const session = connect(`${plaintext ? 'http' : 'https'}://${address}`, { rejectUnauthorized: false });
  try {
    const answer = await exchange(session);
    if (answer.equals(SERVING)) return { state: 'serving', message: `it serves on ${address}` };
    return answer.length === SERVING.length ? { state: 'not_serving', message: 'it runs and does not serve: it is starting or stopping, or its database does not answer; its log and /readyz say which' } : { state: 'silent', message: `what listens on ${address} does not answer as a Plantroom; ${SILENT}` };
  } catch (error) {
    return asksForCertificate(error) ? { state: 'serving', message: `it listens on ${address}, and asks for a client certificate: more cannot be seen` } : { state: 'silent', message: `it does not answer on ${address} (${(error as Error).message}); ${SILENT}` };
  } finally {
    session.destroy();
  }
}

async function exchange(session: ClientHttp2Session): Promise<Buffer> {
  return await new Promise<Buffer>((resolve, reject) => {
    session.setTimeout(WAIT_MS, () => reject(new Error(`nothing came for ${WAIT_MS / 1000} s`)));
    session.once('error', reject);
    const stream = session.request({ ':method': 'POST', ':path': '/grpc.health.v1.Health/Check', 'content-type': 'application/grpc', te: 'trailers' });
    const parts: Buffer[] = [];
    stream.on('data', (part: Buffer) => parts.push(part));
    stream.once('error', reject).once('end', () => resolve(Buffer.concat(parts)));
    stream.end(REQUEST);
  });
}

/** TLS says so itself; only a server that is there does. */
function asksForCertificate(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED';
}
