import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { KeyRefused, KeyUnknown, type Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { compileAddresses } from './addresses';
import { hashKey, isWellFormed, prefixOf } from './apiKey';
import { refuseEndedKey } from './endedKey';
import { KeyReads, type ReadPurpose } from './keyReads';
import { KeyUses } from './keyUses';
import type { KnownKey } from './knownKeyRepository';
import { dropOldest } from './oldest';
import { RateLimits, UNLIMITED, type Rates } from './rateLimits';
import { RecentChanges } from './recentChanges';

/** For how long a key that was read is taken as read, in milliseconds: a change in another process counts that much later. */
const FRESH = 1000;
const LARGEST_CACHE = 10_000;

interface Cached extends KnownKey {
  readonly hash: string;
  /** On the clock that never jumps. */
  readonly readAt: number;
  /** The last change of all when the read began. */
  readonly seen: number;
  readonly allows: (address: string) => boolean;
  /** The last address that was allowed. */
  lastPeer: string | undefined;
}

/** What authentication stands on. */
export interface AuthenticationOptions {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where nothing is said: no limits. */
  readonly rates?: Rates;
}

/**
 * Checks API keys: present, well-formed, known, not revoked, not expired, from an allowed address, in this order; whoever fails too
 * often is told only that. A key that was read within the last second is answered without a promise.
 */
export class Authentication {
  private readonly known = new Map<string, Cached>();
  /** Hashes that no key has, and when that was read. */
  private readonly unknown = new Map<string, number>();
  /** What each principal was made of, for as long as somebody has it. */
  private readonly origins = new WeakMap<Principal, Cached>();
  private readonly keyListeners = new Set<(keyId: string) => void>();
  private readonly accessListeners = new Set<(organizationId: string) => void>();
  private readonly reads: KeyReads;
  private readonly uses: KeyUses;
  private readonly limits: RateLimits;
  private readonly changes = new RecentChanges();

  constructor(private readonly deps: AuthenticationOptions) {
    this.reads = new KeyReads(deps.uow);
    this.uses = new KeyUses(deps);
    this.limits = new RateLimits(deps.clock, deps.rates ?? UNLIMITED);
  }

  /**
   * `peer` is the caller's address without the port. Throws api_key_missing, api_key_invalid, api_key_revoked, api_key_expired,
   * address_not_allowed, rate_limited.
   */
  authenticate(key: string | undefined, peer: string): Principal | Promise<Principal> {
    if (!key) throw this.limits.failed(new DomainError('unauthenticated', 'api_key_missing', 'the call has no API key; send one as x-api-key'), peer);
    const hash = hashKey(key);
    const known = this.known.get(hash);
    if (known && this.isCurrent(known)) return this.admit(known, peer);
    if (!known && !isWellFormed(key)) throw this.limits.failed(keyInvalid('the API key is mistyped: its checksum does not fit; copy the whole key, plr_ and 49 characters'), peer);
    if (this.isFresh(this.unknown.get(hash))) throw this.limits.failed(keyUnknown(prefixOf(key)), peer);
    return this.authenticateAnew(hash, prefixOf(key), peer);
  }

  /** Counts one call, or one stream that is opened. Throws rate_limited. */
  countCall(principal: Principal, peer: string): void {
    this.limits.countCall(principal, peer);
  }

  /** Reads the key again, for streams that are open with it: what it may do now. Throws when it would no longer pass. */
  async recheck(principal: Principal): Promise<Principal> {
    const origin = this.origins.get(principal);
    const known = origin && (await this.read(origin.hash, 'recheck'));
    if (!known) throw keyUnknown(principal.keyPrefix);
    this.refuseEnded(known);
    return known.principal;
  }

  /** Throws address_not_allowed where the key may not be used from an address. */
  requireAllowed(principal: Principal, peer: string): void {
    const allows = this.origins.get(principal)?.allows ?? compileAddresses(principal.allowedAddresses);
    if (!allows(peer)) throw addressNotAllowed(principal, peer);
  }

  /** Calls the listener with the id of each key that this process changes, once the change is on disk. Returns how to stop that. */
  onKeyChanged(listener: (keyId: string) => void): () => void {
    this.keyListeners.add(listener);
    return () => this.keyListeners.delete(listener);
  }

  /** Calls the listener with the organization of each change of members, roles or organizations in this process, once it is on disk. Returns how to stop that. */
  onAccessChanged(listener: (organizationId: string) => void): () => void {
    this.accessListeners.add(listener);
    return () => this.accessListeners.delete(listener);
  }

  /** Takes what was read of this key for old, because it was changed. Called once the change is on disk. */
  keyChanged(keyId: string): void {
    this.changes.note(keyId);
    for (const listener of this.keyListeners) listener(keyId);
  }

  /** Takes what was read of the organization's keys for old, because its members, its roles or itself were changed. Called once the change is on disk. */
  accessChanged(organizationId: string): void {
    this.changes.note(organizationId);
    for (const listener of this.accessListeners) listener(organizationId);
  }

  /** Writes down when keys were last used. */
  async flush(): Promise<void> {
    await this.uses.flush();
  }

  /** The same, for the last time. */
  async close(): Promise<void> {
    await this.uses.close();
  }

  private async authenticateAnew(hash: string, prefix: string, peer: string): Promise<Principal> {
    const known = await this.read(hash, 'call');
    if (!known) throw this.limits.failed(keyUnknown(prefix), peer);
    return this.admit(known, peer);
  }

  private admit(known: Cached, peer: string): Principal {
    try {
      this.refuseEnded(known);
      if (known.lastPeer !== peer && !known.allows(peer)) throw addressNotAllowed(known.principal, peer);
    } catch (error) {
      throw error instanceof KeyRefused ? this.limits.failed(error, peer) : error;
    }
    known.lastPeer = peer;
    this.uses.note(known.principal, peer);
    return known.principal;
  }

  private refuseEnded(known: KnownKey): void {
    refuseEndedKey(known, this.deps.clock.now());
  }

  private async read(hash: string, purpose: ReadPurpose, isSecond = false): Promise<Cached | undefined> {
    const seen = this.changes.latest;
    const readAt = this.deps.clock.monotonic();
    const key = await this.reads.read(hash, purpose);
    if (!key) {
      this.known.delete(hash);
      remember(this.unknown, hash, readAt);
      return undefined;
    }
    const held = this.known.get(hash);
    if (held?.principal === key.principal) return held; // somebody who waited for the same read was first
    const cached: Cached = { ...key, hash, readAt, seen, allows: compileAddresses(key.principal.allowedAddresses), lastPeer: undefined };
    this.origins.set(cached.principal, cached);
    // What was changed while it was read may be the old one. It is still what the key was when this call came, so that it is good for
    // this call, and for no other; once it is looked at again all the same. After a change streams are looked at again anyway.
    if (!this.hasChanged(cached)) remember(this.known, hash, cached);
    else if (purpose === 'call' && !isSecond) return await this.read(hash, purpose, true);
    return cached;
  }

  private isCurrent(known: Cached): boolean {
    return this.isFresh(known.readAt) && !this.hasChanged(known);
  }

  private hasChanged({ seen, principal }: Cached): boolean {
    return this.changes.hasChanged(seen, principal.keyId, principal.organizationId);
  }

  private isFresh(readAt: number | undefined): boolean {
    return readAt !== undefined && this.deps.clock.monotonic() - readAt < FRESH;
  }
}

/** Keeps the newest. */
function remember<Value>(cache: Map<string, Value>, hash: string, value: Value): void {
  cache.delete(hash);
  dropOldest(cache, LARGEST_CACHE);
  cache.set(hash, value);
}

function addressNotAllowed(principal: Principal, peer: string): KeyRefused {
  return new KeyRefused(principal, 'permission_denied', 'address_not_allowed', `the API key ${principal.keyPrefix} may not be used from ${peer}; use it from an address that it allows, or let its allowedAddresses hold this one`, { metadata: { address: peer } });
}

function keyUnknown(prefix: string): KeyUnknown {
  return new KeyUnknown(prefix, 'unauthenticated', 'api_key_invalid', 'the API key is not known here; create one with `plantroom keys create`, or with CreateApiKey');
}

function keyInvalid(message: string): DomainError {
  return new DomainError('unauthenticated', 'api_key_invalid', message);
}
