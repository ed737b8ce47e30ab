import { logVerbosity, ServerCredentials, setLogVerbosity, type ServerInterceptor, type ServiceDefinition, type UntypedServiceImplementation } from '@grpc/grpc-js';
import type { MethodDefinition } from '../calls/definitions';
import { missingMethod } from '../calls/servedMethod';
import { listenFault } from '../listenFault';
import { DEFAULT_LIMITS, type GrpcLimits } from '../limits';
import type { Door, Services } from '../services';
import type { ServerTls } from '../tls/serverTls';
import { GrpcCall } from './call';
import { ReloadableCredentials } from './credentials';
import { guarded } from './guarded';
import { Handshakes } from './handshakes';
import { http2Options, LimitedServer } from './limitedServer';

/** What a gRPC server needs. */
export interface GrpcServerOptions {
  readonly services: Services;
  readonly tls: ServerTls;
  /** Where nothing is said: DEFAULT_LIMITS. */
  readonly limits?: Partial<GrpcLimits>;
}

/** The gRPC port: TLS and limits around the services. */
export class GrpcServer implements Door {
  private readonly limits: GrpcLimits;
  private readonly server: LimitedServer;
  private readonly handshakes = new Handshakes();

  constructor(private readonly options: GrpcServerOptions) {
    const { services } = options;
    this.limits = { ...DEFAULT_LIMITS, ...options.limits };
    const interceptor: ServerInterceptor = (definition, call) => new GrpcCall(services.edge, services.methods.get(definition.path) ?? missingMethod(definition.path, services.checks), call);
    this.server = new LimitedServer(this.limits, interceptor);
  }

  /** Listens on `host:port` (port 0: any that is free), for the services that are there by now. Throws a DomainError that says what to change. */
  async start(listen: string): Promise<{ address: string }> {
    setLogVerbosity(logVerbosity.NONE); // grpc-js writes to the terminal by itself; what matters comes back as errors
    const { tls, services } = this.options;
    tls.requireAllowed(listen);
    for (const definition of services.definitions) {
      const served = guarded(definition, services.descriptors, (method, err) => services.edge.log.error({ method, err }, 'rpc.answer_unwritable'));
      this.server.addService(served as ServiceDefinition, unreached(served));
    }
    const credentials = tls.isOn ? new ReloadableCredentials(tls, http2Options(this.limits)) : ServerCredentials.createInsecure();
    const port = await new Promise<number>((resolve, reject) => {
      this.server.bindAsync(listen, credentials, (error, bound) => (error ? reject(listenFault(listen, 'PLANTROOM_GRPC_LISTEN', error)) : resolve(bound)));
    });
    if (tls.isOn) for (const opened of this.server.ports) this.handshakes.watch(opened);
    return { address: `${listen.slice(0, listen.lastIndexOf(':'))}:${port}` };
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.tryShutdown(() => resolve()));
    this.handshakes.cut(); // it would wait for them too
    await closed;
  }

  cut(): void {
    this.server.forceShutdown();
  }
}

// grpc-js wants a function for each method; the calls never come to it, see GrpcCall.
function never(): never {
  throw new Error('GrpcCall answers every call');
}

function unreached(definition: Readonly<Record<string, MethodDefinition>>): UntypedServiceImplementation {
  return Object.fromEntries(Object.keys(definition).map((name) => [name, never]));
}
