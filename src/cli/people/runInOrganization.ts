import type { CommandChange } from '../../access';
import type { AdminContext } from '../../server';
import { withAdminContext } from '../core';
import { getOrganizationId, type OrganizationFlags } from './organizationFlag';

/** Runs work in the organization of the flags. */
export async function runInOrganization<T>(
  flags: OrganizationFlags,
  work: (admin: AdminContext, organizationId: string) => Promise<T>,
): Promise<T> {
  return await withAdminContext(
    flags,
    async (admin) => await work(admin, (await admin.organizations.getByIdOrOnly(getOrganizationId(flags))).id),
  );
}

/**
 * Runs work in the organization of the flags and records it in the audit trail. `method`: the words of the command
 * (`members add`). `getResource`: returns the resource once the result is known, for example the id of a new record; it
 * replaces `change.resource`.
 */
export async function runAudited<T>(
  flags: OrganizationFlags,
  method: string,
  change: Pick<CommandChange, 'resource' | 'fields'>,
  work: (admin: AdminContext, organizationId: string) => Promise<T>,
  getResource?: (result: T) => string,
): Promise<T> {
  return await runInOrganization(
    flags,
    async (admin, organizationId) =>
      await admin.audit.recordChange(
        method,
        { organizationId, ...change },
        async () => await work(admin, organizationId),
        getResource,
      ),
  );
}
