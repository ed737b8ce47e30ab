import { createScopeQueries, ResourceAccessGuard } from '../../accessGuard';
import type { Tracing } from '../../observability/traces/tracing';
import type { Executions } from '../../executions';
import type { MediaService } from '../../media';
import { Services } from '../../api/services';
import type { Foundation } from '../foundation';
import type { Authentication } from './createAuthentication';

/** What the API needs of the modules. */
interface ApiDependencies {
  readonly authentication: Authentication;
  readonly media: MediaService;
  readonly executions: Executions;
  readonly tracing: Tracing | undefined;
}

/** Creates the API: the pipeline that every call passes. Its methods are registered later (registerMethods). */
export function createApi(
  { config, database, clock, log, monitoring }: Foundation,
  { authentication, media, executions, tracing }: ApiDependencies,
): Services {
  const { authenticator, auditLog, idempotency } = authentication;
  const gate = new ResourceAccessGuard(
    createScopeQueries(database, {
      media: async (...query) => await media.findOutOfScope(...query),
      executions: async (...query) => await executions.service.findInaccessibleId(...query),
    }),
  );
  const api = new Services({
    authenticator,
    auditor: auditLog,
    gate,
    idempotency,
    assertDiskSpace: () => database.disk.assertDiskSpace(),
    reflection: config.grpc.reflection,
    accessLog: config.log.access,
    readiness: monitoring.readiness,
    observers: tracing ? [...monitoring.observers, tracing.calls] : monitoring.observers,
    clock,
    log,
  });
  const { keyWatch } = api.pipeline.calls;
  authenticator.invalidation.onKeyChanged((keyId) => keyWatch.recheck(keyId));
  authenticator.invalidation.onAccessChanged((organizationId) => keyWatch.recheckOrganization(organizationId));
  return api;
}
