import { DomainError, notFound, throwIfAny, validationFailed } from '../../kernel/errors';
import { cleanName } from '../name';
import type { UserService } from '../people/userService';
import type { ApiKey, KeyGrant } from './apiKey';
import { cleanGrant, findGrantViolations, findTextViolations } from './grantRules';
import { issueKeyForMember, type IssuedKey } from './issueKey';
import {
  findChangeViolations,
  loadCommandLineCaller,
  KeyChanges,
  type KeyChange,
  type KeyChangesOptions,
  type RotatedKey,
} from './keyChanges';
import { findUnknownReferences, type ReferenceCheckers } from './keyReferences';

/** How long the old key stays valid after a rotation by default, in milliseconds: a day. */
const DEFAULT_GRACE_MS = 24 * 60 * 60_000;
const MAX_NOTE_LENGTH = 1000;
/** The maximum number of owners that the error lists. */
const MAX_NAMED_OWNERS = 20;

/** The input for a new key from the command line. */
export interface KeyFromCommandLine
  extends
    Omit<KeyGrant, 'restrictions' | 'allowedAddresses'>,
    Partial<Pick<KeyGrant, 'restrictions' | 'allowedAddresses'>> {
  readonly name: string;
  readonly note?: string | undefined;
  /** The key may manage the complete installation. */
  readonly isAdmin: boolean;
  /** Undefined: the owner of the organization, if there is only one. */
  readonly ownerUserId: string | undefined;
}

/** Manages API keys for the command line: any scope, and admin keys. */
export class KeyAdministration {
  private readonly changes: KeyChanges;

  constructor(
    private readonly deps: KeyChangesOptions & {
      readonly users: UserService;
      readonly referenceCheckers: ReferenceCheckers;
    },
  ) {
    this.changes = new KeyChanges(deps);
  }

  /** Creates a key. Throws `organization_not_found`, `user_not_found`, `user_ambiguous`, `validation_failed`. */
  async create(organizationId: string, input: KeyFromCommandLine): Promise<IssuedKey> {
    const { uow, clock, referenceCheckers } = this.deps;
    const organization = await uow.repos.organizations.get(organizationId);
    const ownerUserId = await this.resolveOwner(organization.id, input.ownerUserId);
    const name = cleanName(input.name, 'name');
    const note = cleanNote(input.note ?? '');
    if (input.scopes.length === 0)
      throw validationFailed([{ field: 'scopes', description: 'is empty: set at least one scope' }]);
    const requested: KeyGrant = {
      ...input,
      restrictions: input.restrictions,
      allowedAddresses: input.allowedAddresses ?? [],
    };
    const grant = cleanGrant(requested);
    const violations = [
      ...findTextViolations({ name, note }),
      ...findGrantViolations(requested, clock.now()),
      ...(await findUnknownReferences(organization.id, grant, referenceCheckers)),
    ];
    const key = {
      ...grant,
      name,
      note,
      organizationId: organization.id,
      ownerUserId,
      rotatedFrom: '',
      isAdmin: input.isAdmin,
      canActAsOwner: true,
    };
    return await uow.transaction(async (repos) => await issueKeyForMember(repos, key, clock, violations));
  }

  /** Lists all keys of an organization, newest first; includes revoked and expired keys. */
  async list(organizationId: string): Promise<ApiKey[]> {
    return await this.deps.uow.repos.apiKeys.list(organizationId);
  }

  /** Returns the organization of a key. Throws `api_key_not_found`. */
  async getOrganization(id: string): Promise<string> {
    const organizationId = await this.deps.uow.repos.apiKeys.findOrganizationId(id);
    if (organizationId === undefined) throw notFound('api_key', id);
    return organizationId;
  }

  /** Returns a key. Throws `api_key_not_found`. */
  async get(organizationId: string, id: string): Promise<ApiKey> {
    return await this.deps.uow.repos.apiKeys.get(organizationId, id);
  }

  /** Changes the set fields. Throws `api_key_not_found`, `validation_failed`, `api_key_inactive`. */
  async update(organizationId: string, id: string, change: KeyChange): Promise<ApiKey> {
    const cleanChange = {
      ...change,
      name: change.name === undefined ? undefined : cleanName(change.name, 'name'),
      note: change.note === undefined ? undefined : cleanNote(change.note),
    };
    throwIfAny(findChangeViolations(cleanChange, this.deps.clock.now()));
    const violations = await findUnknownReferences(
      organizationId,
      // The gateway connections of an existing key cannot be changed.
      { connectionIds: [], restrictions: change.restrictions },
      this.deps.referenceCheckers,
    );
    return await this.changes.update(organizationId, id, cleanChange, undefined, loadCommandLineCaller, violations);
  }

  /**
   * Revokes a key immediately in this process and within a second in others. A revoked key stays unchanged. Throws
   * `api_key_not_found`.
   */
  async revoke(organizationId: string, id: string): Promise<ApiKey> {
    return await this.changes.revoke(organizationId, id, loadCommandLineCaller);
  }

  /**
   * Creates a key with the permissions of the old one, and makes the old one expire after `graceMs` milliseconds (0:
   * immediately; default: a day). Throws `api_key_not_found`, `validation_failed` (grace), `api_key_inactive` (a
   * revoked or expired key cannot be rotated).
   */
  async rotate(organizationId: string, id: string, graceMs = DEFAULT_GRACE_MS): Promise<RotatedKey> {
    if (!Number.isInteger(graceMs) || graceMs < 0)
      throw validationFailed([{ field: 'grace', description: 'must be 0 or more milliseconds' }]);
    return await this.changes.rotate(organizationId, id, graceMs, loadCommandLineCaller);
  }

  /**
   * Returns the user id of the owner of a new key: the given user, or the only owner of the organization. Throws
   * `user_not_found`, `user_ambiguous`.
   */
  private async resolveOwner(organizationId: string, id: string | undefined): Promise<string> {
    if (id !== undefined) return (await this.deps.users.getByIdOrOnly(id)).id;
    const [firstOwner, ...otherOwners] = await this.deps.uow.repos.members.listOwners(organizationId, MAX_NAMED_OWNERS);
    if (firstOwner && otherOwners.length === 0) return firstOwner.userId;
    if (!firstOwner)
      throw new DomainError(
        'conflict',
        'user_ambiguous',
        'the organization has no owner: select the member that owns the key with --owner',
      );
    const listed = [firstOwner, ...otherOwners].map((owner) => `${owner.userId} (${owner.name})`).join(', ');
    throw new DomainError(
      'conflict',
      'user_ambiguous',
      `the organization has several owners: select the owner of the key with --owner: ${listed}`,
    );
  }
}

/** Returns the note. Throws `validation_failed` if it is too long. */
function cleanNote(text: string): string {
  const length = Array.from(text).length;
  if (length > MAX_NOTE_LENGTH)
    throw validationFailed([
      { field: 'note', description: `must have at most ${MAX_NOTE_LENGTH} characters (got ${length})` },
    ]);
  return text;
}
