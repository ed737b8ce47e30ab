import type { Clock } from '../../kernel/clock';
import { evictOldest } from '../../kernel/evictOldest';
import type { Principal } from '../../kernel/principal';
import { compileAddressCheck } from './addresses';
import type { KeyInvalidation } from './keyInvalidation';
import type { KeyLoader, ReadPurpose } from './keyLoader';
import type { AuthenticatedKey } from './knownKeyRepository';

/**
 * How long a key that was read is valid in the cache, in milliseconds: a change by another process takes effect that
 * much later.
 */
const CACHE_TTL_MS = 1000;
const MAX_CACHE_ENTRIES = 10_000;

/** A key as read from the database, with what is needed to decide whether it may still be used. */
export interface CachedKey extends AuthenticatedKey {
  readonly hash: string;
  /** When the read started, milliseconds of the monotonic clock. */
  readonly readAt: number;
  /** The number of the latest change when the read started. */
  readonly changeNumber: number;
  readonly isAllowedAddress: (address: string) => boolean;
  /** The address of the last call that was allowed: calls from it need no check against the allowed addresses. */
  lastAllowedPeer: string | undefined;
}

/** Caches keys, known and unknown ones, by their hash for one second. A change by this process takes effect at once. */
export class PrincipalCache {
  private readonly keyByHash = new Map<string, CachedKey>();
  /** When unknown keys were looked up, milliseconds of the monotonic clock, by the hash of the key. */
  private readonly readAtByUnknownHash = new Map<string, number>();
  /** The key of each principal that is in use. */
  private readonly keyByPrincipal = new WeakMap<Principal, CachedKey>();

  constructor(
    private readonly loader: KeyLoader,
    private readonly invalidation: KeyInvalidation,
    private readonly clock: Clock,
  ) {}

  /** Returns a key that may be used without a read. */
  find(hash: string): CachedKey | undefined {
    const key = this.keyByHash.get(hash);
    return key && this.isRecent(key.readAt) && !this.hasChangedSinceRead(key) ? key : undefined;
  }

  /** Whether a recent read found no key with this hash. */
  isUnknown(hash: string): boolean {
    return this.isRecent(this.readAtByUnknownHash.get(hash));
  }

  /** Returns the key as it was when it was read with this principal, even if it is no longer cached. */
  findByPrincipal(principal: Principal): CachedKey | undefined {
    return this.keyByPrincipal.get(principal);
  }

  /** Reads a key from the database and caches the result; undefined if no key has this hash. */
  async load(hash: string, purpose: ReadPurpose): Promise<CachedKey | undefined> {
    const key = await this.loadOnce(hash, purpose);
    // A key that was changed during the read may be the old state, so a call reads it once more. If it was changed
    // again, the result is used for this call only, because it was valid when the call arrived. A stream needs no
    // second read, because each change causes another check of the streams.
    const shouldReload = purpose === 'call' && key !== undefined && this.hasChangedSinceRead(key);
    return shouldReload ? await this.loadOnce(hash, purpose) : key;
  }

  private async loadOnce(hash: string, purpose: ReadPurpose): Promise<CachedKey | undefined> {
    const changeNumber = this.invalidation.latestChange;
    const readAt = this.clock.monotonic();
    const authenticatedKey = await this.loader.read(hash, purpose);
    if (!authenticatedKey) {
      this.keyByHash.delete(hash);
      setNewest(this.readAtByUnknownHash, hash, readAt);
      return undefined;
    }
    const { principal } = authenticatedKey;
    const existing = this.keyByHash.get(hash);
    // Another call that waited for the same read has already stored it.
    if (existing?.principal === principal) return existing;
    const isAllowedAddress = compileAddressCheck(principal.allowedAddresses);
    const key = { ...authenticatedKey, hash, readAt, changeNumber, isAllowedAddress, lastAllowedPeer: undefined };
    this.keyByPrincipal.set(principal, key);
    if (!this.hasChangedSinceRead(key)) setNewest(this.keyByHash, hash, key);
    return key;
  }

  /** Whether this process changed the key, its owner's role or its organization since the key was read. */
  private hasChangedSinceRead({ changeNumber, principal }: CachedKey): boolean {
    return this.invalidation.hasChanged(changeNumber, principal.keyId, principal.organizationId);
  }

  /**
   * Whether a read at this time (milliseconds of the monotonic clock) is recent enough to see the changes of other
   * processes.
   */
  private isRecent(readAt: number | undefined): boolean {
    return readAt !== undefined && this.clock.monotonic() - readAt < CACHE_TTL_MS;
  }
}

/** Stores a value as the newest entry; evicts the oldest ones if the map is full. */
function setNewest<Value>(map: Map<string, Value>, hash: string, value: Value): void {
  map.delete(hash);
  evictOldest(map, MAX_CACHE_ENTRIES);
  map.set(hash, value);
}
