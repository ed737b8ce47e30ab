import { keyExpired, KeyRefused } from '../../kernel/principal';
import type { KnownKey } from './knownKeyRepository';

/** Throws `api_key_revoked` or `api_key_expired` for a key that has ended. `now` in Unix milliseconds. */
export function refuseEndedKey({ principal, revokedAt, isOrphaned }: KnownKey, now: number): void {
  const { keyPrefix, expiresAt } = principal;
  if (revokedAt !== undefined) throw new KeyRefused(principal, 'unauthenticated', 'api_key_revoked', `the API key ${keyPrefix} was revoked; use another one`);
  if (isOrphaned) throw new KeyRefused(principal, 'unauthenticated', 'api_key_revoked', `the API key ${keyPrefix} has ended with its organization, or with its owner's membership in it; use another one`);
  if (expiresAt !== undefined && expiresAt <= now) throw keyExpired(principal, expiresAt);
}
