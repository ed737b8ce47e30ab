import { apiKeyExpired, ApiKeyRejectedError } from '../../kernel/principal';
import type { AuthenticatedKey } from './knownKeyRepository';

/** Throws `api_key_revoked` or `api_key_expired` if the key is no longer valid. `now`: Unix milliseconds. */
export function assertKeyActive({ principal, revokedAt, isOrphaned }: AuthenticatedKey, now: number): void {
  const { keyPrefix, expiresAt } = principal;
  if (revokedAt !== undefined)
    throw new ApiKeyRejectedError(
      principal,
      'unauthenticated',
      'api_key_revoked',
      `the API key ${keyPrefix} was revoked: use another key`,
    );
  if (isOrphaned)
    throw new ApiKeyRejectedError(
      principal,
      'unauthenticated',
      'api_key_revoked',
      `the API key ${keyPrefix} is no longer valid, because its organization was deleted or its owner is no longer a member: use another key`,
    );
  if (expiresAt !== undefined && expiresAt <= now) throw apiKeyExpired(principal, expiresAt);
}
