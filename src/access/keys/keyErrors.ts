import { DomainError } from '../../kernel/errors';
import { ApiKeyRejectedError, UnknownApiKeyError, type Principal } from '../../kernel/principal';

/** Creates the error for a call without a key. */
export function keyMissing(): DomainError {
  return new DomainError(
    'unauthenticated',
    'api_key_missing',
    'Missing API key. Send it in the X-API-Key header (gRPC: x-api-key metadata).',
  );
}

/** Creates the error for text that is not a key. */
export function keyMalformed(): DomainError {
  return new DomainError(
    'unauthenticated',
    'api_key_invalid',
    'Invalid API key: the checksum is wrong, so it was probably mistyped or cut off. A key is "plr_" followed by 49 characters.',
  );
}

/** The error for a well-formed key that this server does not know. */
export function keyUnknown(prefix: string): UnknownApiKeyError {
  return new UnknownApiKeyError(
    prefix,
    'unauthenticated',
    'api_key_invalid',
    'unknown API key: create one with `plantroom keys create` or CreateApiKey',
  );
}

/** The error for a key that is used from an address outside its allowed addresses. */
export function addressNotAllowed(principal: Principal, peer: string): ApiKeyRejectedError {
  return new ApiKeyRejectedError(
    principal,
    'permission_denied',
    'address_not_allowed',
    `the API key ${principal.keyPrefix} may not be used from ${peer}: use it from an allowed address, or add this address to its allowedAddresses`,
    { metadata: { address: peer } },
  );
}
