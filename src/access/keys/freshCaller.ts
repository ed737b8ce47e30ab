import type { Clock } from '../../kernel/clock';
import { KeyRefused, KeyUnknown, type Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { refuseEndedKey } from './endedKey';

/** What a method asks of the keys that call it, once more: the protos say the same. */
export interface Need {
  readonly scope: 'api-keys:write' | 'organizations:write';
  /** Nobody who is limited to devices or commands may call it. */
  readonly isForUnlimited: boolean;
}

/** What changes of keys need. */
export const TO_CHANGE_KEYS: Need = { scope: 'api-keys:write', isForUnlimited: false };
/** What changes of people, roles and organizations need. */
export const TO_CHANGE_PEOPLE: Need = { scope: 'organizations:write', isForUnlimited: true };

/**
 * Who is calling, as it is now: what authentication knew may be a second old, and a key must not use that second to take back what it lost.
 * Locks the organization of the caller, and with it the key and the membership of its owner: whoever changes one of these holds that lock.
 * To be called in a transaction, before keys and people are locked. Throws what authentication throws, and `scope_missing`.
 */
export async function freshCaller({ members, knownKeys }: AccessRepositories, caller: Principal, clock: Clock, need: Need): Promise<Principal> {
  await members.hold(caller.organizationId);
  const known = await knownKeys.find(caller.organizationId, caller.keyId);
  if (!known) throw new KeyUnknown(caller.keyPrefix, 'unauthenticated', 'api_key_invalid', 'the API key is not known here any more; use another one');
  refuseEndedKey(known, clock.now());
  const { principal } = known;
  refuseMoved(principal, caller);
  if (!principal.scopes.has(need.scope)) throw scopeMissing(principal, need, `the key does not hold the scope ${need.scope} any more, or the role of its owner does not; use another one`);
  if (need.isForUnlimited && principal.reach) throw scopeMissing(principal, need, 'the key is limited to some devices or commands now, and this concerns the whole organization; use one without that limit');
  return principal;
}

/** Where the caller calls from was compared with addresses that do not hold any more. */
function refuseMoved(now: Principal, before: Principal): void {
  const { allowedAddresses: allowed } = now;
  if (allowed.length === 0 || (allowed.length === before.allowedAddresses.length && before.allowedAddresses.every((address, at) => address === allowed[at]))) return;
  throw new KeyRefused(now, 'permission_denied', 'address_not_allowed', `the addresses that the API key ${now.keyPrefix} may be used from were changed at this moment; call once more, from one that it allows`);
}

function scopeMissing(principal: Principal, { scope }: Need, message: string): KeyRefused {
  return new KeyRefused(principal, 'permission_denied', 'scope_missing', message, { metadata: { required_scope: scope } });
}
