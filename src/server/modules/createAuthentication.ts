import {
  createAccessRepositories,
  ApiKeyAuthenticator,
  AuditLog,
  IdempotencyKeys,
  openCursors,
  openInstallationId,
} from '../../access';
import { UnitOfWork } from '../../database';
import type { Foundation } from '../foundation';

/** Authentication, the audit trail and idempotency keys. */
export type Authentication = Awaited<ReturnType<typeof createAuthentication>>;

/** Creates and starts what every call needs: authentication, the audit trail and idempotency keys. */
export async function createAuthentication({ config, database, clock, retentionClock, log, disposables }: Foundation) {
  const uow = new UnitOfWork(database, createAccessRepositories);
  const authenticator = new ApiKeyAuthenticator({ uow, rates: config.rateLimit, clock, log });
  disposables.add(async () => await authenticator.usage.close());
  const auditLog = new AuditLog({ database, ...config.audit, clock, log, retentionClock });
  await auditLog.start();
  disposables.add(async () => await auditLog.close());
  return {
    uow,
    authenticator,
    auditLog,
    idempotency: new IdempotencyKeys({ database, clock, expiryClock: retentionClock }),
    cursors: await openCursors(uow),
    installationId: await openInstallationId(uow),
    /** Call it after a committed change of a key. */
    keyChanged: (keyId: string): void => authenticator.invalidation.keyChanged(keyId),
    /** Call it after a committed change of members, roles or organizations. */
    accessChanged: (organizationId: string): void => authenticator.invalidation.accessChanged(organizationId),
  };
}
