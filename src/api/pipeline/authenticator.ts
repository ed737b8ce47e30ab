import type { Principal } from '../../kernel/principal';

/** Authenticates API keys. The api module depends on this interface; the composition root (server) passes the implementation in. */
export interface Authenticator {
  /**
   * Authenticates the key of one call. `peer` is the client's address without the port. Return a cached result without
   * a promise, which is faster. Throws unauthenticated: api_key_missing, api_key_invalid, api_key_revoked,
   * api_key_expired; address_not_allowed; and rate_limited instead of any of these after too many of them.
   */
  authenticate(key: string | undefined, peer: string): Principal | Promise<Principal>;
  /** Counts an authenticated call, or a stream that it opens, for the rate limit. Throws rate_limited. */
  countCall(principal: Principal, peer: string): void;
  /**
   * Returns the current permissions of a key. Called every few seconds while the key has an open stream. Throws if the
   * key would no longer be accepted from any address.
   */
  recheck(principal: Principal): Promise<Principal>;
  /** Throws address_not_allowed if the key may not be used from the address. */
  assertAddressAllowed(principal: Principal, peer: string): void;
}
