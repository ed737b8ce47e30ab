import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import type { Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { reloadPrincipal, ORGANIZATION_CHANGE_ACCESS } from '../keys/reloadPrincipal';
import type { Organization } from './organization';

/** How long a confirmation is valid, in milliseconds. */
const CONFIRMATION_TTL_MS = 10 * 60_000;

/** The numbers of devices and connections of an organization. */
interface Holdings {
  readonly devices: number;
  readonly connections: number;
}

/** The numbers of records that are deleted together with an organization. */
export interface DeletionForecast extends Holdings {
  readonly organization: Organization;
  readonly members: number;
  /** The number of active keys. */
  readonly apiKeys: number;
}

/** The response of the first step: what would be deleted, and the confirmation for the second step. */
export interface DeletionOffer extends DeletionForecast {
  readonly confirmation: string;
  /** When the confirmation expires, Unix milliseconds. */
  readonly expiresAt: number;
}

/** Dependencies of OrganizationDeletion. */
interface OrganizationDeletionOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  /** Counts the devices and connections of an organization; modules that build on this one implement it. */
  readonly countHoldings: (organizationId: string) => Promise<Holdings>;
  /** Called after an organization was deleted, which makes its keys and memberships invalid. */
  readonly onDeleted: (organizationId: string) => void;
}

/**
 * Deletes organizations. A deleted organization is inaccessible immediately; its data is deleted in the background.
 * Over the API a deletion takes two steps: `offer` returns a confirmation, and `confirm` deletes with it.
 */
export class OrganizationDeletion {
  constructor(private readonly options: OrganizationDeletionOptions) {}

  /** Counts the records that would be deleted. Throws `organization_not_found`. */
  async countRecords(id: string): Promise<DeletionForecast> {
    const { uow, clock, countHoldings } = this.options;
    const organization = await uow.repos.organizations.get(id);
    const { organizationRemoval } = uow.repos;
    return {
      organization,
      ...(await countHoldings(id)),
      members: await organizationRemoval.countMembers(id),
      apiKeys: await organizationRemoval.countKeys(id, clock.now()),
    };
  }

  /**
   * Runs the first step: returns what would be deleted, and a confirmation. Throws `organization_not_found`,
   * `cannot_delete_own_organization`.
   */
  async offer(callerOrganizationId: string, id: string, cursors: Cursors): Promise<DeletionOffer> {
    assertNotCallersOrganization(callerOrganizationId, id);
    const forecast = await this.countRecords(id);
    const expiresAt = this.options.clock.now() + CONFIRMATION_TTL_MS;
    return {
      ...forecast,
      confirmation: cursors.encode(getConfirmationScope(forecast.organization), { expiresAt }),
      expiresAt,
    };
  }

  /**
   * Runs the second step: deletes the organization. Throws `organization_not_found`, `cannot_delete_own_organization`,
   * `confirmation_invalid`, `validation_failed` for a wrong name.
   */
  async confirm(
    caller: Principal,
    id: string,
    { confirmation, name }: { readonly confirmation: string; readonly name: string },
    cursors: Cursors,
  ): Promise<void> {
    assertNotCallersOrganization(caller.organizationId, id);
    await this.delete(id, name, {
      caller,
      assertConfirmed: (organization) => this.assertValidConfirmation(organization, confirmation, cursors),
    });
  }

  /**
   * Deletes the organization with the id and the exact name. `request`: the caller, which is reloaded in the
   * transaction, and a check of the caller's confirmation; undefined for the command line. Throws
   * `organization_not_found`, `validation_failed`, and the errors of the check.
   */
  async delete(
    id: string,
    name: string,
    request?: { readonly caller: Principal; readonly assertConfirmed: (organization: Organization) => void },
  ): Promise<void> {
    const { uow, clock, onDeleted } = this.options;
    await uow.transaction(async (repos, db) => {
      const { organizations, members, apiKeys } = repos;
      if (request) {
        // reloadPrincipal locks the organization of the caller. Two organizations are always locked in the order of
        // their ids, so that two transactions do not deadlock: this one is locked here if its id is the smaller one,
        // otherwise by organizations.lock below, which also reads it.
        if (id < request.caller.organizationId) await members.lockOrganization(id);
        await reloadPrincipal(repos, request.caller, clock, ORGANIZATION_CHANGE_ACCESS);
      }
      const organization = await organizations.lock(id);
      request?.assertConfirmed(organization);
      if (name !== organization.name)
        throw validationFailed([
          {
            field: 'name',
            description: 'is not the exact name of the organization: use the name from the response of the first step',
          },
        ]);
      const now = clock.now();
      await organizations.markDeleted(id, now);
      // Waits for a concurrent creation of a key, so that the new key is revoked too.
      await members.removeAll(id);
      await apiKeys.revokeOfOrganization(id, now);
      db.afterCommit(() => onDeleted(id));
    });
  }

  /**
   * Throws `confirmation_invalid` unless the confirmation was issued for this state of the organization at most 10
   * minutes ago.
   */
  private assertValidConfirmation(organization: Organization, confirmation: string, cursors: Cursors): void {
    const decoded = decodeConfirmation(cursors, getConfirmationScope(organization), confirmation);
    if (decoded === undefined) throw confirmationInvalid('is not for the current state of this organization');
    if (decoded.expiresAt <= this.options.clock.now()) throw confirmationInvalid('is older than 10 minutes');
  }
}

/** Returns what a confirmation is bound to: any change of the organization invalidates it. */
function getConfirmationScope({ id, revision }: Organization): readonly string[] {
  return [id, 'deletion of the organization', String(revision)];
}

/**
 * Returns the content of a confirmation; undefined if it is forged, or was issued for another organization or state.
 */
function decodeConfirmation(
  cursors: Cursors,
  scope: readonly string[],
  token: string,
): { readonly expiresAt: number } | undefined {
  try {
    return cursors.decode<{ expiresAt: number }>(scope, token, 'confirmation');
  } catch (error) {
    if (error instanceof DomainError) return undefined;
    throw error;
  }
}

/** Throws `cannot_delete_own_organization` if the organization is that of the calling key. */
function assertNotCallersOrganization(callerOrganizationId: string, id: string): void {
  if (id === callerOrganizationId)
    throw new DomainError(
      'conflict',
      'cannot_delete_own_organization',
      'the API key belongs to this organization: delete it with an admin key of another organization, or on the command line of the server',
    );
}

/** Creates the error for a confirmation that cannot be used. `why` completes "the confirmation ...". */
function confirmationInvalid(why: string): DomainError {
  return new DomainError(
    'conflict',
    'confirmation_invalid',
    `the confirmation ${why}: call again without a confirmation to get a new one, and check what would be deleted`,
  );
}
