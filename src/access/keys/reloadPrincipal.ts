import type { Clock } from '../../kernel/clock';
import { ApiKeyRejectedError, UnknownApiKeyError, type Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { assertKeyActive } from './keyStatus';

/** The access that a method requires; the protos contain the same rules. */
export interface RequiredAccess {
  readonly scope: 'api-keys:write' | 'organizations:write';
  /** Keys that are restricted to devices or commands may not call it. */
  readonly requiresUnrestrictedKey: boolean;
}

/** The access that changes of keys require. */
export const KEY_CHANGE_ACCESS: RequiredAccess = { scope: 'api-keys:write', requiresUnrestrictedKey: false };
/** The access that changes of users, members, roles and organizations require. */
export const ORGANIZATION_CHANGE_ACCESS: RequiredAccess = {
  scope: 'organizations:write',
  requiresUnrestrictedKey: true,
};

/**
 * Returns the current state of the caller, read again in the transaction of a change. The authenticated state may be a
 * second old, and a key must not use that second to regain permissions that it lost. Locks the organization of the
 * caller: every change of the key, of its owner's membership or of roles takes this lock too, so the returned state
 * stays valid until the end of the transaction. Must run before keys and users are locked. Throws the errors of
 * authentication, and `insufficient_scope`.
 */
export async function reloadPrincipal(
  { members, knownKeys }: AccessRepositories,
  caller: Principal,
  clock: Clock,
  required: RequiredAccess,
): Promise<Principal> {
  await members.lockOrganization(caller.organizationId);
  const currentKey = await knownKeys.find(caller.organizationId, caller.keyId);
  if (!currentKey)
    throw new UnknownApiKeyError(
      caller.keyPrefix,
      'unauthenticated',
      'api_key_invalid',
      'the API key no longer exists: use another key',
    );
  assertKeyActive(currentKey, clock.now());
  const { principal } = currentKey;
  assertSameAddresses(principal, caller);
  if (!principal.scopes.has(required.scope))
    throw insufficientScope(
      principal,
      required,
      `the key, or the role of its owner, no longer has the scope ${required.scope}: use another key`,
    );
  if (required.requiresUnrestrictedKey && principal.resourceScope)
    throw insufficientScope(
      principal,
      required,
      'the key is now restricted to some devices or commands, but this operation concerns the whole organization: use a key without restrictions',
    );
  return principal;
}

/**
 * Throws `address_not_allowed` if the allowed addresses of the key have changed since the address of the caller was
 * checked.
 */
function assertSameAddresses(current: Principal, authenticated: Principal): void {
  const { allowedAddresses: allowed } = current;
  const isUnchanged =
    allowed.length === authenticated.allowedAddresses.length &&
    authenticated.allowedAddresses.every((address, index) => address === allowed[index]);
  if (isUnchanged || allowed.length === 0) return; // an empty list allows every address
  throw new ApiKeyRejectedError(
    current,
    'permission_denied',
    'address_not_allowed',
    `the allowed addresses of the API key ${current.keyPrefix} have just changed: repeat the call from an allowed address`,
  );
}

function insufficientScope(principal: Principal, { scope }: RequiredAccess, message: string): ApiKeyRejectedError {
  return new ApiKeyRejectedError(principal, 'permission_denied', 'insufficient_scope', message, {
    metadata: { required_scope: scope },
  });
}
