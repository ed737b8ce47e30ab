import type { Principal } from '../kernel/principal';

/** Who checks keys; the edge needs it, app.ts hands it in. */
export interface Authenticator {
  /**
   * Checks the key of one call. `peer` is the caller's address without the port. An answer that is known already is better given
   * without a promise. Throws unauthenticated: api_key_missing, api_key_invalid, api_key_revoked, api_key_expired; address_not_allowed,
   * and rate_limited instead of any of these after too many of them.
   */
  authenticate(key: string | undefined, peer: string): Principal | Promise<Principal>;
  /** Counts a call whose key passed, or a stream that it opens. Throws rate_limited. */
  countCall(principal: Principal, peer: string): void;
  /** Called every few seconds while a stream of the key is open: what the key may do now. Throws when it would no longer pass, wherever from. */
  recheck(principal: Principal): Promise<Principal>;
  /** Throws address_not_allowed where the key may not be used from an address. */
  requireAllowed(principal: Principal, peer: string): void;
}
