import { DomainError } from '../kernel/errors';
import { HealthCheckResponse_ServingStatus as Serving, type HealthServer } from '../gen/grpc/health/v1/health';
import type { HandlersOf } from './handlers';
import { type Readiness, type ReadyState } from './status/readiness';

/** Whether the server and its services serve: grpc.health.v1. */
export class Health {
  constructor(
    private readonly services: ReadonlySet<string>,
    private readonly readiness: Readiness,
  ) {}

  /** The handlers of grpc.health.v1.Health. */
  handlers(): HandlersOf<HealthServer> {
    return {
      check: async ({ service }) => ({ status: this.statusOf(await this.readiness.state(), service, () => unknownService(service)) }),
      watch: ({ service }, { signal }) => this.watch(service, signal),
    };
  }

  private async *watch(service: string, signal: AbortSignal): AsyncGenerator<{ status: Serving }> {
    let told: Serving | undefined;
    while (!signal.aborted) {
      const status = this.statusOf(this.readiness.last, service, () => Serving.SERVICE_UNKNOWN);
      if (status === told) await this.changed(signal);
      else yield { status: (told = status) };
    }
  }

  private statusOf(state: ReadyState, service: string, unknown: () => Serving): Serving {
    if (service !== '' && !this.services.has(service)) return unknown();
    return state === 'ready' ? Serving.SERVING : Serving.NOT_SERVING;
  }

  private async changed(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        unwatch();
        signal.removeEventListener('abort', wake);
        resolve();
      };
      const unwatch = this.readiness.watch(wake);
      signal.addEventListener('abort', wake);
    });
  }
}

function unknownService(service: string): never {
  throw new DomainError('not_found', 'service_not_found', `the server has no service ${JSON.stringify(service)}; ask reflection for those that it has, or for "" as the whole server`);
}
