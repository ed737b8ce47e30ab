import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError, validationFailed } from '../../kernel/errors';
import type { Cursors } from '../../kernel/pages';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { freshCaller, TO_CHANGE_PEOPLE } from '../keys/freshCaller';
import type { Organization } from './organization';

/** How long the confirmation of the first step holds, in milliseconds. */
const HOLDS_MS = 10 * 60_000;

/** How many devices and connections an organization has. */
export interface Holdings {
  readonly devices: number;
  readonly connections: number;
}

/** What would go with an organization. */
export interface DeletionForecast extends Holdings {
  readonly organization: Organization;
  readonly members: number;
  /** Keys that still work. */
  readonly apiKeys: number;
}

/** The first step: what would go, and what confirms it. */
export interface DeletionOffer extends DeletionForecast {
  readonly confirmation: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

/** What the deletion of organizations needs. */
export interface OrganizationDeletionOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  /** Of an organization; the rooms above count them. */
  readonly holdings: (organizationId: string) => Promise<Holdings>;
  /** Told of an organization once it is no more: its keys and its people are nothing any more. */
  readonly onDeleted: (organizationId: string) => void;
}

/** Deletes organizations. One that is deleted is gone for everybody at once; its data goes after it, in the background. */
export class OrganizationDeletion {
  constructor(private readonly options: OrganizationDeletionOptions) {}

  /** What would go. Throws `organization_not_found`. */
  async forecast(id: string): Promise<DeletionForecast> {
    const { uow, clock, holdings } = this.options;
    const organization = await uow.repos.organizations.get(id);
    const { organizationRemoval } = uow.repos;
    return { organization, ...(await holdings(id)), members: await organizationRemoval.countMembers(id), apiKeys: await organizationRemoval.countKeys(id, clock.now()) };
  }

  /** The first step. Throws `organization_not_found`, `own_organization`. */
  async offer(ownId: string, id: string, cursors: Cursors): Promise<DeletionOffer> {
    refuseOwn(ownId, id);
    const forecast = await this.forecast(id);
    const expiresAt = this.options.clock.now() + HOLDS_MS;
    return { ...forecast, confirmation: cursors.encode(confirmed(forecast.organization), { expiresAt }), expiresAt };
  }

  /** The second step. Throws `organization_not_found`, `own_organization`, `confirmation_invalid`, `validation_failed` for another name. */
  async confirm(caller: Principal, id: string, { confirmation, name }: { readonly confirmation: string; readonly name: string }, cursors: Cursors): Promise<void> {
    refuseOwn(caller.organizationId, id);
    await this.delete(id, name, { caller, check: (organization) => this.checkConfirmation(organization, confirmation, cursors) });
  }

  /**
   * Deletes an organization that is named by its id and its exact name; for a caller as it is then, unless it is the command line.
   * Throws `organization_not_found`, `validation_failed`, and what `check` throws.
   */
  async delete(id: string, name: string, asked?: { readonly caller: Principal; readonly check: (organization: Organization) => void }): Promise<void> {
    const { uow, clock, onDeleted } = this.options;
    await uow.transaction(async (repos, db) => {
      const { organizations, members, organizationRemoval } = repos;
      if (asked && id < asked.caller.organizationId) await members.hold(id); // two organizations are always held in the order of their ids
      if (asked) await freshCaller(repos, asked.caller, clock, TO_CHANGE_PEOPLE);
      const organization = await organizations.lock(id);
      asked?.check(organization);
      if (name !== organization.name) throw validationFailed([{ field: 'name', description: 'is not the exact name of the organization; give the name as the first step shows it' }]);
      const now = clock.now();
      await organizations.markDeleted(id, now);
      await members.removeAll(id); // waits for whoever makes a key just now: that one is revoked too
      await organizationRemoval.revokeKeys(id, now);
      db.afterCommit(() => onDeleted(id));
    });
  }

  private checkConfirmation(organization: Organization, confirmation: string, cursors: Cursors): void {
    const opened = opensAs(cursors, confirmed(organization), confirmation);
    if (opened === undefined) throw confirmationInvalid('was not given for this organization as it is now');
    if (opened.expiresAt <= this.options.clock.now()) throw confirmationInvalid('is older than 10 minutes');
  }
}

/** What a confirmation is bound to: any change of the organization makes it void. */
function confirmed({ id, revision }: Organization): readonly string[] {
  return [id, 'deletion of the organization', String(revision)];
}

function opensAs(cursors: Cursors, list: readonly string[], token: string): { readonly expiresAt: number } | undefined {
  try {
    return cursors.decode<{ expiresAt: number }>(list, token, 'confirmation');
  } catch (error) {
    if (error instanceof DomainError) return undefined; // forged, or of another one
    throw error;
  }
}

function refuseOwn(ownId: string, id: string): void {
  if (id === ownId) throw new DomainError('conflict', 'own_organization', 'the key belongs to this organization and would end with it; delete the organization with the admin key of another one, or on the command line of the server');
}

function confirmationInvalid(why: string): DomainError {
  return new DomainError('conflict', 'confirmation_invalid', `the confirmation ${why}; call once without a confirmation to get a new one, and look at what would go`);
}
