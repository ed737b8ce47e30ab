import { Server, type ServerInterceptor } from '@grpc/grpc-js';
import type { Http2Server, SecureServerOptions } from 'node:http2';
import type { GrpcLimits } from '../limits';

/** The HTTP/2 options that make the limits of a connection. */
export function http2Options(limits: GrpcLimits): SecureServerOptions {
  return {
    settings: { maxConcurrentStreams: limits.concurrentStreams, maxHeaderListSize: limits.metadataBytes },
    maxHeaderListPairs: 64,
    streamResetBurst: limits.resetBurst,
    streamResetRate: limits.resetsPerSecond,
  };
}

interface Inner {
  commonServerOptions: object;
  handlers: Map<string, object>;
  readonly http2Servers: ReadonlyMap<Http2Server, object>;
}

/** The handlers as grpc-js keeps them, with one for every path. */
class Handlers extends Map<string, object> {
  override get(path: string): object {
    return super.get(path) ?? { path, type: 'unary', func: unreached, serialize: unreached, deserialize: unreached };
  }
}

function unreached(): never {
  throw new Error('the interceptor ends the call of an unknown method');
}

/** A grpc-js server with every limit set; its interceptor sees every call, of unknown methods too. */
export class LimitedServer extends Server {
  constructor(limits: GrpcLimits, interceptor: ServerInterceptor) {
    super({
      interceptors: [interceptor],
      'grpc.enable_channelz': 0,
      'grpc.max_receive_message_length': limits.receiveBytes,
      'grpc.max_send_message_length': limits.sendBytes,
      'grpc.max_concurrent_streams': limits.concurrentStreams,
      'grpc.keepalive_time_ms': limits.keepaliveMs,
      'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    });
    // grpc-js has no option for the rest on a port without TLS; with TLS they come with the credentials. A test sees whether they hold.
    const inner = this as unknown as Inner;
    inner.commonServerOptions = { ...inner.commonServerOptions, ...http2Options(limits) };
    // By itself it answers the call of a method that it does not have before the interceptor sees it.
    inner.handlers = new Handlers();
  }

  /** The ports that are open; grpc-js shows them to nobody. */
  get ports(): Iterable<Http2Server> {
    return (this as unknown as Inner).http2Servers.keys();
  }
}
