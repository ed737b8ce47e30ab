import type { ClientHttp2Session } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { target } from '../bench/fleet';
import { call, frame, open } from '../bench/load';
import type { PlantroomServer } from '../bench/plantroomServer';

/** A gRPC client on one connection. */
export class GrpcClient {
  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly server: PlantroomServer,
  ) {}

  static async open(server: PlantroomServer): Promise<GrpcClient> {
    return new GrpcClient(await open({ url: server.url, ca: server.ca }), server);
  }

  /** One call; the bytes of its answer. Throws if it was refused. */
  async ask(path: string, message: Uint8Array): Promise<Buffer> {
    const answer = await call(this.session, { path, headers: this.server.headers() }, frame(message));
    if (!answer) throw new Error(`${path} was refused`);
    return answer;
  }

  close(): void {
    this.session.close();
  }
}

/** Opens a stream on a connection of its own, reads it for so long, and ends it: in peace, or with a connection that breaks. Throws if the server ends it before. */
export async function openStream(server: PlantroomServer, path: string, message: Uint8Array, forMs: number, breaks: boolean): Promise<void> {
  const { headers, ...where } = target(server, server.key, path);
  const session = await open(where);
  try {
    const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers });
    const ended = new Promise<never>((_, reject) => {
      stream.on('trailers', (trailers) => reject(new Error(`${path} ended: ${String(trailers['grpc-message'])}`)));
      stream.on('error', reject);
    });
    stream.resume().end(frame(message));
    await Promise.race([pause(forMs), ended]);
    ended.catch(() => {}); // what it says of its end, when we end it, is of no interest
    if (!breaks) stream.close();
  } finally {
    if (breaks) session.destroy();
    else session.close();
  }
}
