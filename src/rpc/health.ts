import { DomainError } from '../kernel/errors';
import { HealthCheckResponse_ServingStatus as Serving, type HealthServer } from '../gen/grpc/health/v1/health';
import type { HandlersOf } from './handlers';

/** Whether the server and its services serve: grpc.health.v1. */
export class Health {
  private serving = true;
  private readonly watchers = new Set<() => void>();

  constructor(private readonly services: ReadonlySet<string>) {}

  /** Whether the server serves. */
  get isServing(): boolean {
    return this.serving;
  }

  /** From now on nothing serves; those who watch are told. */
  stopServing(): void {
    this.serving = false;
    for (const wake of this.watchers) wake();
  }

  /** The handlers of grpc.health.v1.Health. */
  handlers(): HandlersOf<HealthServer> {
    return {
      check: async ({ service }) => ({ status: this.statusOf(service, () => unknownService(service)) }),
      watch: ({ service }, { signal }) => this.watch(service, signal),
    };
  }

  private async *watch(service: string, signal: AbortSignal): AsyncGenerator<{ status: Serving }> {
    let told: Serving | undefined;
    while (!signal.aborted) {
      const status = this.statusOf(service, () => Serving.SERVICE_UNKNOWN);
      if (status === told) await this.changed(signal);
      else yield { status: (told = status) };
    }
  }

  private statusOf(service: string, unknown: () => Serving): Serving {
    if (service !== '' && !this.services.has(service)) return unknown();
    return this.serving ? Serving.SERVING : Serving.NOT_SERVING;
  }

  private async changed(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        this.watchers.delete(wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.watchers.add(wake);
      signal.addEventListener('abort', wake);
    });
  }
}

function unknownService(service: string): never {
  throw new DomainError('not_found', 'service_not_found', `the server has no service ${JSON.stringify(service)}; ask reflection for those that it has, or for "" as the whole server`);
}
