import { Server, type ServerInterceptor } from '@grpc/grpc-js';
import type { Http2Server, SecureServerOptions } from 'node:http2';
import type { GrpcLimits } from '../limits';

/** Returns the HTTP/2 options that enforce the limits of a connection. */
export function toHttp2Options(limits: GrpcLimits): SecureServerOptions {
  return {
    settings: { maxConcurrentStreams: limits.maxConcurrentStreams, maxHeaderListSize: limits.maxMetadataBytes },
    maxHeaderListPairs: 64,
    // Otherwise a value with blanks around it is silently discarded, so that the key seems to be missing.
    strictFieldWhitespaceValidation: false,
    streamResetBurst: limits.rstStreamBurst,
    streamResetRate: limits.rstStreamsPerSecond,
  };
}

/** Private fields of the grpc-js Server. */
interface ServerInternals {
  commonServerOptions: object;
  handlers: Map<string, object>;
  readonly http2Servers: ReadonlyMap<Http2Server, object>;
}

/** The handlers of grpc-js, with a placeholder for every unknown path. */
class HandlerMap extends Map<string, object> {
  /** Returns the handler of a path; for an unknown path a placeholder, so that grpc-js calls the interceptor. */
  override get(path: string): object {
    return (
      super.get(path) ?? {
        path,
        type: 'unary',
        func: throwUnreachable,
        serialize: throwUnreachable,
        deserialize: throwUnreachable,
      }
    );
  }
}

function throwUnreachable(): never {
  throw new Error('bug: the interceptor did not end the call of an unknown method');
}

/** A grpc-js server with all limits set. Its interceptor receives all calls, including those of unknown methods. */
export class LimitedServer extends Server {
  constructor(limits: GrpcLimits, interceptor: ServerInterceptor) {
    super({
      interceptors: [interceptor],
      'grpc.enable_channelz': 0,
      'grpc.max_receive_message_length': limits.maxReceiveMessageBytes,
      'grpc.max_send_message_length': limits.maxSendMessageBytes,
      'grpc.max_concurrent_streams': limits.maxConcurrentStreams,
      'grpc.keepalive_time_ms': limits.keepaliveMs,
      'grpc.keepalive_timeout_ms': limits.keepaliveTimeoutMs,
    });
    // grpc-js has no options for the other limits on a port without TLS; with TLS the credentials contain them. A test
    // checks that they apply.
    const internals = this as unknown as ServerInternals;
    internals.commonServerOptions = { ...internals.commonServerOptions, ...toHttp2Options(limits) };
    // Without a placeholder, grpc-js responds to the call of an unknown method before the interceptor receives it.
    internals.handlers = new HandlerMap();
  }

  /** The open ports; grpc-js does not expose them. */
  get ports(): Iterable<Http2Server> {
    return (this as unknown as ServerInternals).http2Servers.keys();
  }
}
