import { logVerbosity, type Server, ServerCredentials, setLogVerbosity, type ServerInterceptor, type ServiceDefinition, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { setImmediate } from 'node:timers/promises';
import { asset } from '../../kernel/assets';
import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import { HealthService } from '../../gen/grpc/health/v1/health';
import { ServerReflectionService } from '../../gen/grpc/reflection/v1/reflection';
import { ServerReflectionService as ServerReflectionAlphaService } from '../../gen/grpc/reflection/v1alpha/reflection';
import type { Authenticator } from '../authenticator';
import { Descriptors } from '../descriptors';
import { Health } from '../health';
import { DEFAULT_LIMITS, type GrpcLimits } from '../limits';
import { Reflection } from '../reflection';
import type { ServerTls } from '../tls/serverTls';
import { FieldRuleChecks } from '../validation/fieldRules';
import { GrpcCall } from './call';
import { ReloadableCredentials } from './credentials';
import type { Definition, HandlersFor, MethodDefinition } from './definitions';
import { Edge } from './edge';
import { listenFault } from './listenFault';
import { guarded, methodsOf, missingMethod, type GrpcMethod } from './method';
import { http2Options, LimitedServer } from './limitedServer';

/** What a gRPC server needs. */
export interface GrpcServerOptions {
  readonly authenticator: Authenticator;
  readonly log: Logger;
  readonly clock: Clock;
  readonly tls: ServerTls;
  /** Whether clients may ask for the protos (grpc.reflection). */
  readonly reflection: boolean;
  /** Where nothing is said: DEFAULT_LIMITS. */
  readonly limits?: Partial<GrpcLimits>;
  /** Where nothing is said: the protos that the program was built with. */
  readonly descriptors?: Descriptors;
}

/** The gRPC server: TLS, keys, scopes, field rules, errors and logs around the handlers that are added to it. */
export class GrpcServer {
  private readonly limits: GrpcLimits;
  private readonly descriptors: Descriptors;
  private readonly checks: FieldRuleChecks;
  private readonly edge: Edge;
  private readonly services = new Set<string>();
  private readonly methods = new Map<string, GrpcMethod>();
  private readonly health: Health;
  private readonly server: Server;

  constructor(private readonly options: GrpcServerOptions) {
    this.limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.descriptors = options.descriptors ?? new Descriptors(asset('image.binpb'));
    this.checks = new FieldRuleChecks(this.descriptors);
    this.edge = new Edge({ ...options, keyRecheckMs: this.limits.keyRecheckMs });
    this.health = new Health(this.services);
    const interceptor: ServerInterceptor = (definition, call) => new GrpcCall(this.edge, this.methods.get(definition.path) ?? missingMethod(definition.path, this.checks), call);
    this.server = new LimitedServer(this.limits, interceptor);
    this.add(HealthService, this.health.handlers());
    if (options.reflection) this.addReflection();
  }

  /** Serves a service by these handlers. Throws when a method has no handler, or the protos of the image do not know it. */
  add<D extends Definition>(definition: D, handlers: HandlersFor<D>): void {
    for (const method of methodsOf(this.descriptors, this.checks, definition, handlers)) {
      this.methods.set(method.facts.path, method);
      this.services.add(method.facts.service);
    }
    const served = guarded(definition, this.descriptors, (method, err) => this.options.log.error({ method, err }, 'rpc.answer_unwritable'));
    this.server.addService(served as ServiceDefinition, unreached(served));
  }

  /** Listens on `host:port` (port 0: any that is free). Throws a DomainError that says what to change. */
  async start(listen: string): Promise<{ address: string }> {
    setLogVerbosity(logVerbosity.NONE); // grpc-js writes to the terminal by itself; what matters comes back as errors
    const { tls } = this.options;
    tls.requireAllowed(listen);
    const credentials = tls.isOn ? new ReloadableCredentials(tls, http2Options(this.limits)) : ServerCredentials.createInsecure();
    const port = await new Promise<number>((resolve, reject) => {
      this.server.bindAsync(listen, credentials, (error, bound) => (error ? reject(listenFault(listen, error)) : resolve(bound)));
    });
    return { address: `${listen.slice(0, listen.lastIndexOf(':'))}:${port}` };
  }

  /** Looks at a key at once, for its open streams: somebody in this process changed it. */
  keyChanged(keyId: string): void {
    this.edge.keyChanged(keyId);
  }

  /** Stops in peace: health says so, new calls are refused, streams are told to end, unary calls finish; after `hardLimitMs` what is left is cut. */
  async stop(hardLimitMs: number): Promise<void> {
    this.edge.draining = true;
    this.health.stopServing();
    await setImmediate(); // those who watch health are told first
    this.edge.endStreams();
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, hardLimitMs)));
    await Promise.race([this.closeWhenIdle(), limit]);
    clearTimeout(timer);
    this.edge.endAll();
    await setImmediate(); // the last statuses leave before the connections do
    this.server.forceShutdown();
  }

  private async closeWhenIdle(): Promise<void> {
    await this.edge.whenIdle();
    await new Promise<void>((resolve) => this.server.tryShutdown(() => resolve()));
  }

  private addReflection(): void {
    const reflection = new Reflection(this.descriptors, this.services);
    this.add(ServerReflectionService, reflection.handlers());
    this.add(ServerReflectionAlphaService, reflection.handlers());
  }
}

// grpc-js wants a function for each method; the calls never come to it, see GrpcCall.
function never(): never {
  throw new Error('GrpcCall answers every call');
}

function unreached(definition: Readonly<Record<string, MethodDefinition>>): UntypedServiceImplementation {
  return Object.fromEntries(Object.keys(definition).map((name) => [name, never]));
}
