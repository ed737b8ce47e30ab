import {
  logVerbosity,
  ServerCredentials,
  setLogVerbosity,
  type ServerInterceptor,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type { Http2Server } from 'node:http2';
import type { MethodDefinition } from '../pipeline/definitions';
import { createUnknownMethod } from '../pipeline/methodHandler';
import { toListenError } from '../errors/listenError';
import { DEFAULT_LIMITS, type GrpcLimits } from '../limits';
import type { ServerTransport, Services } from '../services';
import type { ServerTls } from '../tls/serverTls';
import { closeUnread } from '../unread';
import { GrpcCall } from './grpcCall';
import { CallTimeouts } from './callTimeouts';
import { markUnread, observeConnection } from './connectionEnd';
import { ReloadableCredentials } from './reloadableCredentials';
import { withSafeSerialization } from './safeSerialization';
import { Handshakes } from './handshakes';
import { toHttp2Options, LimitedServer } from './limitedServer';
import { StreamScheduler } from '../streamScheduler';

/** Dependencies and settings of GrpcServer. */
interface GrpcServerOptions {
  readonly services: Services;
  readonly tls: ServerTls;
  /** Overrides of DEFAULT_LIMITS. */
  readonly limits?: Partial<GrpcLimits>;
}

/** The gRPC port: serves the services with TLS and limits. */
export class GrpcServer implements ServerTransport {
  private readonly limits: GrpcLimits;
  private readonly server: LimitedServer;
  private readonly handshakes: Handshakes;
  private readonly timeouts: CallTimeouts;
  private readonly scheduler = new StreamScheduler();

  constructor(private readonly options: GrpcServerOptions) {
    const { services } = options;
    this.limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.handshakes = new Handshakes(this.limits.handshakeMs);
    this.timeouts = new CallTimeouts(this.limits);
    const interceptor: ServerInterceptor = ({ path }, call) => {
      const method = services.methods.get(path) ?? createUnknownMethod(path, services.checks);
      return new GrpcCall(services.pipeline, method, call, this.timeouts);
    };
    this.server = new LimitedServer(this.limits, interceptor);
  }

  /**
   * Listens on `host:port` (port 0: any free port) and serves the services that are registered by now. Throws a
   * DomainError that explains how to fix the problem.
   */
  async start(listen: string): Promise<{ address: string }> {
    setLogVerbosity(logVerbosity.NONE); // grpc-js would write to the terminal; the relevant errors are returned anyway
    const { tls, services } = this.options;
    tls.assertMayListen(listen);
    for (const definition of services.definitions) {
      const safeDefinition = withSafeSerialization(definition, services.descriptors, (method, err) =>
        services.pipeline.log.error({ method, err }, 'rpc.response_encode_failed'),
      );
      this.server.addService(safeDefinition as ServiceDefinition, createPlaceholders(safeDefinition));
    }
    const credentials = tls.isOn
      ? new ReloadableCredentials(tls, toHttp2Options(this.limits))
      : ServerCredentials.createInsecure();
    const boundPort = await new Promise<number>((resolve, reject) => {
      this.server.bindAsync(listen, credentials, (error, bound) =>
        error ? reject(toListenError(listen, 'PLANTROOM_GRPC_LISTEN', error)) : resolve(bound),
      );
    });
    for (const port of this.server.ports) this.watchPort(port);
    return { address: `${listen.slice(0, listen.lastIndexOf(':'))}:${boundPort}` };
  }

  /**
   * Applies to a port what grpc-js lacks: limits of handshakes and unread streams, and fairness between connections.
   */
  private watchPort(port: Http2Server): void {
    this.handshakes.watch(port);
    const { unreadMs, keepaliveTimeoutMs } = this.limits;
    port.on('session', (session) => observeConnection(session, keepaliveTimeoutMs));
    port.on('stream', (stream) => closeUnread(stream, unreadMs, () => markUnread(stream, unreadMs)));
    this.scheduler.watch(port);
  }

  /** Stops accepting connections; resolves when all calls have ended. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.tryShutdown(() => resolve()));
    this.handshakes.disconnectAll(); // tryShutdown would wait for them
    await closed;
  }

  /** Closes the remaining connections immediately. */
  closeNow(): void {
    this.timeouts.stop();
    this.server.forceShutdown();
  }
}

// grpc-js requires a function for each method, but GrpcCall handles all calls before they reach it.
function throwUnreachable(): never {
  throw new Error('bug: a call was not handled by GrpcCall');
}

/** Returns a handler for each method, which is never called. */
function createPlaceholders(definition: Readonly<Record<string, MethodDefinition>>): UntypedServiceImplementation {
  return Object.fromEntries(Object.keys(definition).map((name) => [name, throwUnreachable]));
}
