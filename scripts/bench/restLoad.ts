import { connect as connectPlain, type Socket } from 'node:net';
import { connect } from 'node:tls';
import type { Measured } from './latencies';
import { openSession } from './load';

/** The requests of a REST load. */
export interface RestLoad {
  /** `host:port`. */
  readonly address: string;
  /** PEM of the CA; undefined: plain text. */
  readonly ca: Buffer | undefined;
  readonly verb: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Returns the body of request number n; undefined: no body. */
  readonly body?: (n: number) => string;
  /** The expected status. */
  readonly status: number;
  /** The number of concurrent calls: one connection per call over HTTP/1.1, two connections over HTTP/2. */
  readonly concurrency: number;
  readonly isHttp2?: boolean;
}

type Send = (n: number) => Promise<boolean>;

/** Runs a load with a minimal client on sockets, which reads only status and length of responses. */
export async function runRestLoad(load: RestLoad, milliseconds: number): Promise<Measured> {
  const { sends, close } = load.isHttp2 ? await createHttp2Senders(load) : await createHttp1Senders(load);
  const latencies: number[] = [];
  let sent = 0;
  let failed = 0;
  const started = performance.now();
  const worker = async (send: Send): Promise<void> => {
    while (performance.now() < started + milliseconds) {
      const before = performance.now();
      if (!(await send((sent += 1)))) failed += 1;
      latencies.push(performance.now() - before);
    }
  };
  await Promise.all(sends.map(worker));
  const seconds = (performance.now() - started) / 1000;
  close();
  const sorted = Float64Array.from(latencies).toSorted();
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { calls: latencies.length, failed, perSecond: latencies.length / seconds, p50: at(0.5), p99: at(0.99) };
}

/** Sends one request and returns the etag and the body of the response. */
export async function requestOnce(
  load: Omit<RestLoad, 'concurrency' | 'status'>,
): Promise<{ etag: string | undefined; text: string }> {
  const socket = await connectSocket(load.address, load.ca);
  const { head, body } = await sendRequest(socket, formatRequest({ ...load, status: 200, concurrency: 1 }, 0));
  socket.destroy();
  return { etag: /^etag: (.*)$/im.exec(head)?.[1], text: body.toString() };
}

async function createHttp1Senders(load: RestLoad): Promise<{ sends: Send[]; close: () => void }> {
  const sockets = await Promise.all(
    Array.from({ length: load.concurrency }, async () => await connectSocket(load.address, load.ca)),
  );
  const expected = `HTTP/1.1 ${load.status} `;
  const fixed = load.body ? undefined : formatRequest(load, 0);
  const sends = sockets.map(
    (socket): Send =>
      async (n) =>
        (await sendRequest(socket, fixed ?? formatRequest(load, n))).head.startsWith(expected),
  );
  return { sends, close: () => sockets.forEach((socket) => socket.destroy()) };
}

async function createHttp2Senders(load: RestLoad): Promise<{ sends: Send[]; close: () => void }> {
  const sessions = await Promise.all(
    [1, 2].map(async () => await openSession({ url: `${load.ca ? 'https' : 'http'}://${load.address}`, ca: load.ca })),
  );
  const sends = Array.from(
    { length: load.concurrency },
    (_, at): Send =>
      async () =>
        await new Promise((resolve, reject) => {
          const stream = (sessions[at % 2] as (typeof sessions)[number]).request({
            ':method': load.verb,
            ':path': load.path,
            ...load.headers,
          });
          let status = 0;
          stream.on('response', (headers) => (status = Number(headers[':status'])));
          stream
            .on('data', () => {})
            .on('error', reject)
            .on('close', () => resolve(status === load.status));
          stream.end();
        }),
  );
  return { sends, close: () => sessions.forEach((session) => session.close()) };
}

function formatRequest({ verb, path, address, headers, body }: RestLoad, n: number): string {
  const content = body?.(n);
  const all = {
    host: address,
    ...headers,
    ...(content !== undefined && {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(content)),
    }),
  };
  return `${verb} ${path} HTTP/1.1\r\n${Object.entries(all)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n${content ?? ''}`;
}

async function connectSocket(address: string, ca: Buffer | undefined): Promise<Socket> {
  const { hostname: host, port } = new URL(`http://${address}`);
  const socket = ca
    ? connect({ host, port: Number(port), ca, servername: 'localhost' })
    : connectPlain(Number(port), host);
  await new Promise<void>((resolve, reject) =>
    socket.once(ca ? 'secureConnect' : 'connect', () => resolve()).once('error', reject),
  );
  return socket.setNoDelay(true);
}

/** Sends a request and reads the response, whose length is in content-length. */
async function sendRequest(socket: Socket, text: string): Promise<{ head: string; body: Buffer }> {
  return await new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    const onData = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const end = received.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = received.toString('latin1', 0, end);
      const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0);
      if (received.length < end + 4 + length) return;
      socket.off('data', onData).off('error', reject);
      resolve({ head, body: received.subarray(end + 4) });
    };
    socket.on('data', onData).on('error', reject);
    socket.write(text);
  });
}
