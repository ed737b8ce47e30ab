import { connect, type ClientHttp2Session, type OutgoingHttpHeaders } from 'node:http2';
import { type Measured, summarize } from './latencies';

/** The requests of a load, and its duration. */
export interface Load {
  readonly url: string;
  /** PEM of the CA; undefined: plain text. */
  readonly ca: Buffer | undefined;
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  /** The serialized message of request number n. */
  readonly message: (n: number) => Uint8Array;
  /** The number of concurrent calls. */
  readonly concurrency: number;
  /** The load ends after this many calls or milliseconds, whichever comes first. */
  readonly calls?: number;
  readonly milliseconds?: number;
}

/** Returns a gRPC message with its prefix of five bytes. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(5 + message.length);
  framed.writeUInt8(0, 0);
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, 5);
  return framed;
}

/**
 * Runs a load with a minimal gRPC client on node:http2: a grpc-js client would cost about as much CPU time as the measured
 * server. A call fails unless its grpc-status is 0.
 */
export async function runLoad(load: Load): Promise<Measured> {
  const sessions = await Promise.all([openSession(load), openSession(load)]);
  const latencies: number[] = [];
  let sent = 0;
  let failed = 0;
  const started = performance.now();
  const end = started + (load.milliseconds ?? Infinity);
  const limit = load.calls ?? Infinity;
  const worker = async (session: ClientHttp2Session): Promise<void> => {
    while (sent < limit && performance.now() < end) {
      const n = sent++;
      const before = performance.now();
      if (!(await call(session, load, frame(load.message(n))))) failed += 1;
      latencies.push(performance.now() - before);
    }
  };
  await Promise.all(
    Array.from(
      { length: load.concurrency },
      async (_, n) => await worker(sessions[n % sessions.length] as ClientHttp2Session),
    ),
  );
  const seconds = (performance.now() - started) / 1000;
  for (const session of sessions) session.close();
  return summarize(latencies, { calls: latencies.length, failed, seconds });
}

/** Makes one call on a new connection; undefined if its status is not OK. */
export async function callOnce(
  load: Omit<Load, 'message' | 'concurrency'>,
  message: Uint8Array,
): Promise<Buffer | undefined> {
  const session = await openSession(load);
  try {
    return await call(session, load, frame(message));
  } finally {
    session.close();
  }
}

/** Opens an HTTP/2 connection, with or without TLS. */
export async function openSession(load: Pick<Load, 'url' | 'ca'>): Promise<ClientHttp2Session> {
  const session = connect(load.url, load.ca ? { ca: load.ca, servername: 'localhost' } : {});
  await new Promise<void>((resolve, reject) => session.once('connect', () => resolve()).once('error', reject));
  return session;
}

/** Makes one call and returns the bytes of its response message; undefined if its status is not OK. */
export async function call(
  session: ClientHttp2Session,
  load: Pick<Load, 'path' | 'headers'>,
  body: Buffer,
): Promise<Buffer | undefined> {
  return await new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': load.path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...load.headers,
    });
    const chunks: Buffer[] = [];
    let status: string | undefined;
    const readStatus = (headers: Record<string, unknown>): void => {
      status = (headers['grpc-status'] as string | undefined) ?? status;
    };
    stream.on('response', readStatus);
    stream.on('trailers', readStatus);
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('error', reject);
    stream.on('close', () => resolve(status === '0' ? Buffer.concat(chunks).subarray(5) : undefined));
    stream.end(body);
  });
}
