import { DomainError } from '../../kernel/errors';
import { HealthCheckResponse_ServingStatus as Serving, type HealthServer } from '../../gen/grpc/health/v1/health';
import type { HandlersOf } from '../pipeline/handlers';
import { type Readiness, type ReadyState } from './readiness';

/** gRPC health checking (grpc.health.v1) of the server and its services. */
export class Health {
  constructor(
    private readonly services: ReadonlySet<string>,
    private readonly readiness: Readiness,
  ) {}

  /** Returns the handlers for grpc.health.v1.Health. `Check` throws for an unknown service; `Watch` reports it. */
  handlers(): HandlersOf<HealthServer> {
    return {
      check: async ({ service }) => ({
        status: this.getStatus(await this.readiness.getState(), service, () => throwServiceNotFound(service)),
      }),
      watch: ({ service }, { signal }) => this.watch(service, signal),
    };
  }

  /**
   * Yields the status of a service now and after each change, until the client stops watching. The status is compared
   * again after each `yield`, so that no change is missed while it is sent.
   */
  private async *watch(service: string, signal: AbortSignal): AsyncGenerator<{ status: Serving }> {
    let lastSent: Serving | undefined;
    while (!signal.aborted) {
      const status = this.getStatus(this.readiness.lastState, service, () => Serving.SERVICE_UNKNOWN);
      if (status === lastSent) {
        await this.waitForChange(signal);
        continue;
      }
      lastSent = status;
      yield { status };
    }
  }

  /** Returns the status of a service. `onUnknown` provides the result for a service that the server does not have. */
  private getStatus(state: ReadyState, service: string, onUnknown: () => Serving): Serving {
    if (service !== '' && !this.services.has(service)) return onUnknown();
    return state === 'ready' ? Serving.SERVING : Serving.NOT_SERVING;
  }

  /** Resolves when the readiness may have changed, or the signal aborts. */
  private async waitForChange(signal: AbortSignal): Promise<void> {
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

/** Throws service_not_found, as the protocol requires for `Check`. */
function throwServiceNotFound(service: string): never {
  throw new DomainError(
    'not_found',
    'service_not_found',
    `service ${JSON.stringify(service)} not found: use a service that gRPC reflection lists, or "" for the server as a whole`,
  );
}
