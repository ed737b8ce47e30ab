import { connect as connectPlain, type Socket } from 'node:net';
import { connect } from 'node:tls';
import { open, type Measured } from './load';

/** What to send over HTTP, and how. */
export interface RestLoad {
  /** `host:port`. */
  readonly address: string;
  /** PEM of the CA; undefined: plain text. */
  readonly ca: Buffer | undefined;
  readonly verb: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The body of request number n; undefined: none. */
  readonly body?: (n: number) => string;
  /** The status of success. */
  readonly status: number;
  /** Calls under way at once: as many connections over HTTP/1.1, two connections over HTTP/2. */
  readonly concurrency: number;
  readonly isHttp2?: boolean;
}

type Send = (n: number) => Promise<boolean>;

/** A lean client on sockets: the request is text, of the answer only status and length are read. */
export async function runRest(load: RestLoad, milliseconds: number): Promise<Measured> {
  const { sends, close } = load.isHttp2 ? await overHttp2(load) : await overHttp1(load);
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
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { calls: latencies.length, failed, perSecond: latencies.length / seconds, p50: at(0.5), p99: at(0.99) };
}

/** One call; the body of the answer. */
export async function onceRest(load: Omit<RestLoad, 'concurrency' | 'status'>): Promise<{ etag: string | undefined; text: string }> {
  const socket = await opened(load.address, load.ca);
  const { head, body } = await ask(socket, requestText({ ...load, status: 200, concurrency: 1 }, 0));
  socket.destroy();
  return { etag: /^etag: (.*)$/im.exec(head)?.[1], text: body.toString() };
}

async function overHttp1(load: RestLoad): Promise<{ sends: Send[]; close: () => void }> {
  const sockets = await Promise.all(Array.from({ length: load.concurrency }, async () => await opened(load.address, load.ca)));
  const expected = `HTTP/1.1 ${load.status} `;
  const fixed = load.body ? undefined : requestText(load, 0);
  const sends = sockets.map((socket): Send => async (n) => (await ask(socket, fixed ?? requestText(load, n))).head.startsWith(expected));
  return { sends, close: () => sockets.forEach((socket) => socket.destroy()) };
}

async function overHttp2(load: RestLoad): Promise<{ sends: Send[]; close: () => void }> {
  const sessions = await Promise.all([1, 2].map(async () => await open({ url: `${load.ca ? 'https' : 'http'}://${load.address}`, ca: load.ca })));
  const sends = Array.from({ length: load.concurrency }, (_, at): Send => async () =>
    await new Promise((resolve, reject) => {
      const stream = (sessions[at % 2] as (typeof sessions)[number]).request({ ':method': load.verb, ':path': load.path, ...load.headers });
      let status = 0;
      stream.on('response', (headers) => (status = Number(headers[':status'])));
      stream.on('data', () => {}).on('error', reject).on('close', () => resolve(status === load.status));
      stream.end();
    }));
  return { sends, close: () => sessions.forEach((session) => session.close()) };
}

function requestText({ verb, path, address, headers, body }: RestLoad, n: number): string {
  const content = body?.(n);
  const all = { host: address, ...headers, ...(content !== undefined && { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(content)) }) };
  return `${verb} ${path} HTTP/1.1\r\n${Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${content ?? ''}`;
}

async function opened(address: string, ca: Buffer | undefined): Promise<Socket> {
  const { hostname: host, port } = new URL(`http://${address}`);
  const socket = ca ? connect({ host, port: Number(port), ca, servername: 'localhost' }) : connectPlain(Number(port), host);
  await new Promise<void>((resolve, reject) => socket.once(ca ? 'secureConnect' : 'connect', () => resolve()).once('error', reject));
  return socket.setNoDelay(true);
}

/** One request and its answer, which tells its length or has none. */
async function ask(socket: Socket, text: string): Promise<{ head: string; body: Buffer }> {
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
