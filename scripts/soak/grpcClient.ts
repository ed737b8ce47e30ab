import type { ClientHttp2Session } from 'node:http2';
import { setTimeout as pause } from 'node:timers/promises';
import { toLoadTarget } from '../bench/fleet';
import { call, frame, openSession } from '../bench/load';
import type { PlantroomServer } from '../bench/plantroomServer';

/** A gRPC client on one connection. */
export class GrpcClient {
  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly server: PlantroomServer,
  ) {}

  static async open(server: PlantroomServer): Promise<GrpcClient> {
    return new GrpcClient(await openSession({ url: server.url, ca: server.ca }), server);
  }

  /** Makes one call and returns the bytes of its response. Throws if the call failed. */
  async call(path: string, message: Uint8Array): Promise<Buffer> {
    const response = await call(this.session, { path, headers: this.server.headers() }, frame(message));
    if (!response) throw new Error(`${path} failed`);
    return response;
  }

  close(): void {
    this.session.close();
  }
}

/**
 * Opens a stream on a separate connection, reads it for `forMs`, and closes it, either cleanly or by breaking the
 * connection. Throws if the server closes the stream earlier.
 */
export async function openStream(
  server: PlantroomServer,
  path: string,
  message: Uint8Array,
  forMs: number,
  breaksConnection: boolean,
): Promise<void> {
  const { headers, ...endpoint } = toLoadTarget(server, server.key, path);
  const session = await openSession(endpoint);
  try {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    const ended = new Promise<never>((_, reject) => {
      stream.on('trailers', (trailers) => reject(new Error(`${path} ended: ${String(trailers['grpc-message'])}`)));
      stream.on('error', reject);
    });
    stream.resume().end(frame(message));
    await Promise.race([pause(forMs), ended]);
    ended.catch(() => {}); // errors after we close the stream are irrelevant
    if (!breaksConnection) stream.close();
  } finally {
    if (breaksConnection) session.destroy();
    else session.close();
  }
}
