import { setImmediate } from 'node:timers/promises';
import { asset } from '../kernel/assets';
import type { Clock } from '../kernel/clock';
import type { Logger } from '../kernel/logger';
import { HealthService } from '../gen/grpc/health/v1/health';
import { ServerReflectionService } from '../gen/grpc/reflection/v1/reflection';
import { ServerReflectionService as ServerReflectionAlphaService } from '../gen/grpc/reflection/v1alpha/reflection';
import type { Authenticator } from './authenticator';
import type { Definition, HandlersFor } from './calls/definitions';
import { Edge } from './calls/edge';
import { methodsOf, type ServedMethod } from './calls/servedMethod';
import type { Auditor } from './auditor';
import type { CallObserver } from './callObserver';
import { Descriptors } from './descriptors';
import type { Gate } from './gate';
import { Health } from './health';
import { Reflection } from './reflection';
import { Readiness } from './status/readiness';
import { FieldRuleChecks } from './validation/fieldRules';

const KEY_RECHECK_MS = 2_000;

/** What the services need. */
export interface ServicesOptions {
  readonly authenticator: Authenticator;
  readonly log: Logger;
  readonly clock: Clock;
  /** Whether clients may ask for the protos (grpc.reflection). */
  readonly reflection: boolean;
  /** How often the key of an open stream is looked at again, in milliseconds, at most 4000, so that a stream ends within 5 s; where nothing is said: 2000. */
  readonly keyRecheckMs?: number;
  /** Who tells what lies outside the reach of a limited key; the application always has one. */
  readonly gate?: Gate;
  /** Who keeps the audit trail; the application always has one. */
  readonly auditor?: Auditor;
  /** Knows whether the server serves; where nothing is said it does from the beginning until it stops. */
  readonly readiness?: Readiness;
  /** Who is told of every call; where nothing is said: nobody. */
  readonly observers?: readonly CallObserver[];
  /** Throws while the disk takes only what clears up; called before every other change. */
  readonly requireRoom?: () => void;
  /** Where nothing is said: the protos that the program was built with. */
  readonly descriptors?: Descriptors;
}

/** A port that the services are reached by. */
export interface Door {
  /** Takes no new connections; resolves when those that are open have ended in peace. */
  close(): Promise<void>;
  /** Cuts what is left. */
  cut(): void;
}

/** What the server serves, whatever the protocol: each method with its checks and its handler, and what all open calls share. */
export class Services {
  readonly descriptors: Descriptors;
  readonly checks: FieldRuleChecks;
  readonly edge: Edge;
  readonly readiness: Readiness;
  readonly gate: Gate | undefined;
  /** The full names of the services. */
  readonly names = new Set<string>();
  /** Every method by its path. */
  readonly methods = new Map<string, ServedMethod>();
  /** As ts-proto describes the services. */
  readonly definitions: Definition[] = [];

  constructor({ keyRecheckMs = KEY_RECHECK_MS, ...options }: ServicesOptions) {
    this.descriptors = options.descriptors ?? new Descriptors(asset('image.binpb'));
    this.checks = new FieldRuleChecks(this.descriptors);
    this.gate = options.gate;
    this.edge = new Edge({ ...options, keyRecheckMs });
    this.readiness = options.readiness ?? alwaysReady();
    this.add(HealthService, new Health(this.names, this.readiness).handlers());
    if (options.reflection) this.addReflection();
  }

  /** Serves a service by these handlers. Throws when a method has no handler, or the protos of the image do not know it. */
  add<D extends Definition>(definition: D, handlers: HandlersFor<D>): void {
    for (const method of methodsOf(this, definition, handlers)) {
      this.methods.set(method.facts.path, method);
      this.names.add(method.facts.service);
    }
    this.definitions.push(definition);
  }

  /** Looks at a key at once, for its open streams: somebody in this process changed it. */
  keyChanged(keyId: string): void {
    this.edge.keyChanged(keyId);
  }

  /** Looks at every key of an organization that has an open stream at once: somebody in this process changed its members, its roles or itself. */
  accessChanged(organizationId: string): void {
    this.edge.accessChanged(organizationId);
  }

  /** Stops in peace: health says so, new calls are refused, streams are told to end, unary calls finish; after `hardLimitMs` what is left is cut. */
  async stop(hardLimitMs: number, doors: readonly Door[]): Promise<void> {
    this.edge.draining = true;
    this.readiness.stop();
    await setImmediate(); // those who watch health are told first
    this.edge.endStreams();
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, hardLimitMs)));
    await Promise.race([this.closeWhenIdle(doors), limit]);
    clearTimeout(timer);
    this.edge.endAll();
    await setImmediate(); // the last answers leave before the connections do
    for (const door of doors) door.cut();
  }

  private async closeWhenIdle(doors: readonly Door[]): Promise<void> {
    await this.edge.whenIdle();
    await Promise.all(doors.map((door) => door.close()));
  }

  private addReflection(): void {
    const reflection = new Reflection(this.descriptors, this.names);
    this.add(ServerReflectionService, reflection.handlers());
    this.add(ServerReflectionAlphaService, reflection.handlers());
  }
}

function alwaysReady(): Readiness {
  const readiness = new Readiness();
  readiness.serve();
  return readiness;
}
