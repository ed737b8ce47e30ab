import { setImmediate } from 'node:timers/promises';
import { readAsset } from '../kernel/assets';
import { withTimeout } from '../kernel/withTimeout';
import { HealthService } from '../gen/grpc/health/v1/health';
import { ServerReflectionService } from '../gen/grpc/reflection/v1/reflection';
import { ServerReflectionService as ServerReflectionAlphaService } from '../gen/grpc/reflection/v1alpha/reflection';
import type { Definition, HandlersFor } from './pipeline/definitions';
import { CallPipeline, type CallPipelineOptions } from './pipeline/callPipeline';
import { createMethodHandlers, type MethodHandler } from './pipeline/methodHandler';
import { type Descriptors, getApiDescriptors } from './descriptors/descriptors';
import type { Gate } from './pipeline/gate';
import { Health } from './health/health';
import { Reflection } from './grpc/reflection';
import { Readiness } from './health/readiness';
import { FieldRuleChecks } from './validation/fieldRuleChecks';

/** Dependencies and settings of Services. */
export interface ServicesOptions extends CallPipelineOptions {
  /** Enables gRPC server reflection. */
  readonly reflection: boolean;
  /** Checks the resources that restricted keys may access; always set in the application. */
  readonly gate?: Gate;
  /** The readiness of the server. Default: always ready until it stops. */
  readonly readiness?: Readiness;
  /** Default: the protos that the program was built with. */
  readonly descriptors?: Descriptors;
}

/** A server port through which clients call the services. */
export interface ServerTransport {
  /** Stops accepting connections; resolves when all open connections have closed. */
  close(): Promise<void>;
  /** Closes the remaining connections immediately. */
  closeNow(): void;
}

/** The services of the server for all protocols: the methods with their checks and handlers, and all open calls. */
export class Services {
  readonly descriptors: Descriptors;
  readonly checks: FieldRuleChecks;
  /** Processes every call: authentication, validation, audit, handler, response. */
  readonly pipeline: CallPipeline;
  readonly readiness: Readiness;
  readonly gate: Gate | undefined;
  /** The full names of the services. */
  readonly names = new Set<string>();
  /** All methods by path. */
  readonly methods = new Map<string, MethodHandler>();
  /** The ts-proto definitions of the services. */
  readonly definitions: Definition[] = [];

  constructor(options: ServicesOptions) {
    this.descriptors = options.descriptors ?? getApiDescriptors();
    this.checks = new FieldRuleChecks(this.descriptors);
    this.gate = options.gate;
    this.pipeline = new CallPipeline(options);
    this.readiness = options.readiness ?? createAlwaysReady();
    this.addService(HealthService, new Health(this.names, this.readiness).handlers());
    if (options.reflection) this.addReflection();
  }

  /** Registers a service. Throws if a method has no handler or is not in the descriptor image. */
  addService<D extends Definition>(definition: D, handlers: HandlersFor<D>): void {
    for (const method of createMethodHandlers(this, definition, handlers)) {
      this.methods.set(method.descriptor.path, method);
      this.names.add(method.descriptor.service);
    }
    this.definitions.push(definition);
  }

  /**
   * Stops gracefully: health reports NOT_SERVING, new calls are rejected, streams end, and unary calls finish. After
   * `hardLimitMs` milliseconds the remaining calls and connections are closed.
   */
  async stop(hardLimitMs: number, transports: readonly ServerTransport[]): Promise<void> {
    this.pipeline.calls.isDraining = true;
    this.readiness.markStopping();
    await setImmediate(); // health watchers are notified first
    this.pipeline.calls.abortStreams();
    await withTimeout(this.closeWhenIdle(transports), hardLimitMs, () => {});
    this.pipeline.calls.failAll();
    await setImmediate(); // the last responses are sent before the connections close
    for (const transport of transports) transport.closeNow();
  }

  /** Resolves when the open calls have ended and the connections are closed. */
  private async closeWhenIdle(transports: readonly ServerTransport[]): Promise<void> {
    await this.pipeline.calls.whenIdle();
    await Promise.all(transports.map((transport) => transport.close()));
  }

  /** Registers gRPC server reflection in both versions of its protocol. */
  private addReflection(): void {
    const reflection = new Reflection(this.descriptors, this.names, () => readAsset('reflection.binpb'));
    this.addService(ServerReflectionService, reflection.handlers());
    this.addService(ServerReflectionAlphaService, reflection.handlers());
  }
}

/** Returns a readiness without checks, for tests and tools. */
function createAlwaysReady(): Readiness {
  const readiness = new Readiness();
  readiness.markStarted();
  return readiness;
}
