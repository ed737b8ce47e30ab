import { DomainError, notFound, throwIfAny, validationFailed } from '../../kernel/errors';
import { cleanName } from '../name';
import type { UserService } from '../people/userService';
import type { ApiKey, KeyGrant } from './apiKey';
import { cleanGrant, grantViolations, textViolations } from './grantRules';
import { issueKeyForMember, type IssuedKey } from './issueKey';
import { changeViolations, KeyChanges, type Asking, type KeyChange, type KeyChangesOptions, type RotatedKey } from './keyChanges';
import { unknownReferences, type MissingThings } from './keyReferences';

/** How long the old key still works after a rotation unless something else is asked for, in milliseconds. */
const A_DAY = 24 * 60 * 60_000;
const LONGEST_NOTE = 1000;
// The one who runs the installation may change every key.
const ANYBODY: Asking = async () => () => {};

/** A key from the command line. */
export interface KeyFromCommandLine extends Omit<KeyGrant, 'restrictions' | 'allowedAddresses'>, Partial<Pick<KeyGrant, 'restrictions' | 'allowedAddresses'>> {
  readonly name: string;
  readonly note?: string | undefined;
  /** May act on the whole installation. */
  readonly isAdmin: boolean;
  /** Undefined: the only member that there is. */
  readonly ownerUserId: string | undefined;
}

/** API keys as the one who runs the installation manages them: any scope, and admin keys. */
export class KeyAdministration {
  private readonly changes: KeyChanges;

  constructor(private readonly deps: KeyChangesOptions & { readonly users: UserService; readonly missing: MissingThings }) {
    this.changes = new KeyChanges(deps);
  }

  /** Throws `organization_not_found`, `user_not_found`, `user_ambiguous`, `validation_failed`. */
  async create(organizationId: string, wanted: KeyFromCommandLine): Promise<IssuedKey> {
    const { uow, clock, missing } = this.deps;
    const organization = await uow.repos.organizations.get(organizationId);
    const ownerUserId = await this.owner(organization.id, wanted.ownerUserId);
    const name = cleanName(wanted.name, 'name');
    const note = cleanNote(wanted.note ?? '');
    if (wanted.scopes.length === 0) throw validationFailed([{ field: 'scopes', description: 'is empty; name at least one scope' }]);
    const given: KeyGrant = { ...wanted, restrictions: wanted.restrictions, allowedAddresses: wanted.allowedAddresses ?? [] };
    const grant = cleanGrant(given);
    const found = [...textViolations({ name, note }), ...grantViolations(given, clock.now()), ...(await unknownReferences(organization.id, grant, missing))];
    const key = { ...grant, name, note, organizationId: organization.id, ownerUserId, rotatedFrom: '', isAdmin: wanted.isAdmin };
    return await uow.transaction(async (repos) => await issueKeyForMember(repos, key, clock, found));
  }

  /** All keys of an organization, newest first, the revoked and expired ones too. */
  async list(organizationId: string): Promise<ApiKey[]> {
    return await this.deps.uow.repos.apiKeys.list(organizationId);
  }

  /** The organization of a key, wherever it is. Throws `api_key_not_found`. */
  async organizationOf(id: string): Promise<string> {
    const organizationId = await this.deps.uow.repos.apiKeys.organizationOf(id);
    if (organizationId === undefined) throw notFound('api_key', id);
    return organizationId;
  }

  /** Throws `api_key_not_found`. */
  async get(organizationId: string, id: string): Promise<ApiKey> {
    return await this.deps.uow.repos.apiKeys.get(organizationId, id);
  }

  /** Changes the given fields. Throws `api_key_not_found`, `validation_failed`, `api_key_ended`. */
  async update(organizationId: string, id: string, change: KeyChange): Promise<ApiKey> {
    const clean = { ...change, name: change.name === undefined ? undefined : cleanName(change.name, 'name'), note: change.note === undefined ? undefined : cleanNote(change.note) };
    throwIfAny(changeViolations(clean, this.deps.clock.now()));
    const found = await unknownReferences(organizationId, { connectionIds: [], restrictions: change.restrictions }, this.deps.missing);
    return await this.changes.update(organizationId, id, clean, undefined, ANYBODY, found);
  }

  /** Ends a key at once in this process, within a second in others. A revoked one stays as it is. Throws `api_key_not_found`. */
  async revoke(organizationId: string, id: string): Promise<ApiKey> {
    return await this.changes.revoke(organizationId, id, ANYBODY);
  }

  /**
   * Makes a new key that does what the old one does and lets the old one end after `grace` milliseconds (0: now; a day unless said).
   * Throws `api_key_not_found`, `validation_failed` (grace), `api_key_ended` (a revoked or expired key is not rotated).
   */
  async rotate(organizationId: string, id: string, grace = A_DAY): Promise<RotatedKey> {
    if (!Number.isInteger(grace) || grace < 0) throw validationFailed([{ field: 'grace', description: 'is not a time; give 0 or more milliseconds' }]);
    return await this.changes.rotate(organizationId, id, grace, ANYBODY);
  }

  private async owner(organizationId: string, id: string | undefined): Promise<string> {
    if (id !== undefined) return (await this.deps.users.pick(id)).id;
    const [first, ...others] = await this.deps.uow.repos.members.list(organizationId, undefined, 2);
    if (first && others.length === 0) return first.userId;
    throw new DomainError('conflict', 'user_ambiguous', `the organization has ${first ? 'several members' : 'no members'}; name the person that the key belongs to by its id`);
  }
}

function cleanNote(text: string): string {
  const length = Array.from(text).length;
  if (length > LONGEST_NOTE) throw validationFailed([{ field: 'note', description: `has ${length} characters; give at most ${LONGEST_NOTE}` }]);
  return text;
}
