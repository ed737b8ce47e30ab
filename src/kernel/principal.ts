import { DomainError } from './errors';
import type { ResourceScope } from './resourceScope';

/** An API key and its owner. */
export interface KeyIdentity {
  readonly keyId: string;
  /** `plr_` and 6 characters; safe to log. */
  readonly keyPrefix: string;
  readonly organizationId: string;
  readonly ownerUserId: string;
  /** Created on the command line with `--admin`: methods that allow it accept the key for the whole installation. */
  readonly isAdmin: boolean;
}

/** The caller: a verified API key and its permissions. */
export interface Principal extends KeyIdentity {
  /** Effective scopes: those of the key that the owner's role has too. */
  readonly scopes: ReadonlySet<string>;
  /** The gateway connections that the key may attach to. */
  readonly connections: ReadonlySet<string> | 'all';
  /** The devices, connections and commands that the key is limited to; undefined: the whole organization. */
  readonly resourceScope: ResourceScope | undefined;
  /** Addresses and networks that the key may be used from; empty: all. */
  readonly allowedAddresses: readonly string[];
  /** Whether the key may act as an owner while its user is an owner; stored when the key is created. */
  readonly canActAsOwner: boolean;
  /** Whether the key currently acts as an owner: the user is an owner, and the key may act as one. */
  readonly isOwner: boolean;
  /** Unix milliseconds; undefined: never. */
  readonly expiresAt: number | undefined;
}

/** A known key was rejected: carries its identity for the audit trail. */
export class ApiKeyRejectedError extends DomainError {
  constructor(
    readonly key: KeyIdentity,
    ...error: ConstructorParameters<typeof DomainError>
  ) {
    super(...error);
  }
}

/** Creates the error for an expired key. */
export function apiKeyExpired(key: KeyIdentity, expiresAt: number): ApiKeyRejectedError {
  return new ApiKeyRejectedError(
    key,
    'unauthenticated',
    'api_key_expired',
    `the API key ${key.keyPrefix} expired at ${new Date(expiresAt).toISOString()}: use another key`,
  );
}

/** A well-formed key is unknown; only its prefix may be stored. */
export class UnknownApiKeyError extends DomainError {
  constructor(
    /** `plr_` and 6 characters. */
    readonly keyPrefix: string,
    ...error: ConstructorParameters<typeof DomainError>
  ) {
    super(...error);
  }
}
