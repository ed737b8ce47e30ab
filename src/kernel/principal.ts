import { DomainError } from './errors';
import type { Reach } from './reach';

/** Which key is asking, and whose it is. */
export interface KeyIdentity {
  readonly keyId: string;
  /** `plr_` and 6 characters; safe to log. */
  readonly keyPrefix: string;
  readonly organizationId: string;
  readonly ownerUserId: string;
  /** Made on the command line with `--admin`: may act on the whole installation where a method says so. */
  readonly isAdmin: boolean;
}

/** Who is asking: a checked API key and what it may do. */
export interface Principal extends KeyIdentity {
  /** What it may do now: the scopes of the key that the role of its owner holds too. */
  readonly scopes: ReadonlySet<string>;
  /** The gateway connections that it may attach to. */
  readonly connections: ReadonlySet<string> | 'all';
  /** What it is limited to; undefined: nothing less than its organization. */
  readonly reach: Reach | undefined;
  /** Addresses and networks that it may be used from; none: all. */
  readonly allowedAddresses: readonly string[];
  /** The role of its owner in the organization. */
  readonly roleId: string;
  /** Unix milliseconds; undefined: never. */
  readonly expiresAt: number | undefined;
}

/** A key was recognised and refused: whoever writes down the attempt can say whose it was. */
export class KeyRefused extends DomainError {
  constructor(
    readonly key: KeyIdentity,
    ...error: ConstructorParameters<typeof DomainError>
  ) {
    super(...error);
  }
}

/** What the caller is told of a key that has ended by its own time. */
export function keyExpired(key: KeyIdentity, expiresAt: number): KeyRefused {
  return new KeyRefused(key, 'unauthenticated', 'api_key_expired', `the API key ${key.keyPrefix} ended at ${new Date(expiresAt).toISOString()}; use another one`);
}

/** A well-formed key that is not known here; only its beginning may be kept. */
export class KeyUnknown extends DomainError {
  constructor(
    /** `plr_` and 6 characters. */
    readonly keyPrefix: string,
    ...error: ConstructorParameters<typeof DomainError>
  ) {
    super(...error);
  }
}
