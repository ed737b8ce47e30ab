import { connect, type ClientHttp2Session, type OutgoingHttpHeaders } from 'node:http2';

/** What to send, and for how long. */
export interface Load {
  readonly url: string;
  /** PEM of the CA; undefined: plain text. */
  readonly ca: Buffer | undefined;
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  /** The serialized message of request number n. */
  readonly message: (n: number) => Uint8Array;
  /** Calls under way at once. */
  readonly concurrency: number;
  /** Ends after this many calls or this many milliseconds, whichever is first. */
  readonly calls?: number;
  readonly milliseconds?: number;
}

/** What came of it. Latencies are in milliseconds. */
export interface Measured {
  readonly calls: number;
  readonly failed: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

/** A gRPC message with its five bytes of length prefix. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(5 + message.length);
  framed.writeUInt8(0, 0);
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, 5);
  return framed;
}

/**
 * A lean gRPC client on node:http2, so that the machine's time goes to the server: grpc-js as a client costs about as much as the server that is measured.
 * Counts an answer as failed unless its grpc-status is 0.
 */
export async function run(load: Load): Promise<Measured> {
  const sessions = await Promise.all([open(load), open(load)]);
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
  await Promise.all(Array.from({ length: load.concurrency }, async (_, n) => await worker(sessions[n % sessions.length] as ClientHttp2Session)));
  const seconds = (performance.now() - started) / 1000;
  for (const session of sessions) session.close();
  const sorted = Float64Array.from(latencies).toSorted();
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { calls: latencies.length, failed, perSecond: latencies.length / seconds, p50: at(0.5), p99: at(0.99) };
}

/** One call; the bytes of the answer's message, undefined if its status was not OK. */
export async function once(load: Omit<Load, 'message' | 'concurrency'>, message: Uint8Array): Promise<Buffer | undefined> {
  const session = await open(load);
  try {
    return await call(session, load, frame(message));
  } finally {
    session.close();
  }
}

/** A connection, TLS or not. */
export async function open(load: Pick<Load, 'url' | 'ca'>): Promise<ClientHttp2Session> {
  const session = connect(load.url, load.ca ? { ca: load.ca, servername: 'localhost' } : {});
  await new Promise<void>((resolve, reject) => session.once('connect', () => resolve()).once('error', reject));
  return session;
}

/** One call; the bytes of the answer's message, undefined if its status was not OK. */
export async function call(session: ClientHttp2Session, load: Pick<Load, 'path' | 'headers'>, body: Buffer): Promise<Buffer | undefined> {
  return await new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':path': load.path, 'content-type': 'application/grpc', te: 'trailers', ...load.headers });
    const chunks: Buffer[] = [];
    let status: string | undefined;
    const seen = (headers: Record<string, unknown>): void => {
      status = (headers['grpc-status'] as string | undefined) ?? status;
    };
    stream.on('response', seen);
    stream.on('trailers', seen);
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('error', reject);
    stream.on('close', () => resolve(status === '0' ? Buffer.concat(chunks).subarray(5) : undefined));
    stream.end(body);
  });
}
