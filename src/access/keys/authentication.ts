import type { UnitOfWork } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { Principal } from '../../kernel/principal';
import type { AccessRepositories } from '../accessRepositories';
import { hashKey, isWellFormed, type ApiKey } from './apiKey';
import { KeyUses } from './keyUses';

/** For how long a key that was read is taken as read, in milliseconds: a change in another process counts that much later. */
const FRESH = 1000;
const LARGEST_CACHE = 10_000;

interface Known {
  readonly key: ApiKey;
  readonly principal: Principal;
  /** On the clock that never jumps. */
  readonly readAt: number;
}

/**
 * Checks API keys: present, well-formed, known, not revoked, not expired, in this order. A key that was read within the last second is
 * answered without a promise. Calls that wait for the same key share one read.
 */
export class Authentication {
  private readonly known = new Map<string, Known>();
  private readonly reading = new Map<string, Promise<Known>>();
  private readonly listeners = new Set<(keyId: string) => void>();
  private readonly accessListeners = new Set<() => void>();
  private readonly uses: KeyUses;
  private changes = 0;

  constructor(private readonly deps: { readonly uow: UnitOfWork<AccessRepositories>; readonly clock: Clock; readonly log: Logger }) {
    this.uses = new KeyUses(deps);
  }

  /** `peer` is the caller's address without the port. Throws api_key_missing, api_key_invalid, api_key_revoked, api_key_expired. */
  authenticate(key: string | undefined, peer: string): Principal | Promise<Principal> {
    if (!key) throw new DomainError('unauthenticated', 'api_key_missing', 'the call has no API key; send one as x-api-key');
    const hash = hashKey(key);
    const known = this.known.get(hash);
    if (known && this.deps.clock.monotonic() - known.readAt < FRESH) return this.admit(known, peer);
    if (!known && !isWellFormed(key)) throw keyInvalid('the API key is mistyped: its checksum does not fit; copy the whole key, plr_ and 49 characters');
    return this.read(hash).then((read) => this.admit(read, peer));
  }

  /** Reads the key again, for streams that are open with it: what it may do now. Throws when it would no longer pass. */
  async recheck(principal: Principal): Promise<Principal> {
    const key = await this.deps.uow.repos.apiKeys.find(principal.organizationId, principal.keyId);
    if (!key) throw keyUnknown();
    this.refuseEnded(key);
    return principalOf(key);
  }

  /** Calls the listener with the id of each key that this process changes, once the change is on disk. Returns how to stop that. */
  onKeyChanged(listener: (keyId: string) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Calls the listener after each change of members, roles or organizations in this process, once it is on disk. Returns how to stop that. */
  onAccessChanged(listener: () => void): () => void {
    this.accessListeners.add(listener);
    return () => this.accessListeners.delete(listener);
  }

  /** Forgets what was read, because members, roles or organizations were changed: of one organization, or of any. Called once the change is on disk. */
  accessChanged(_organizationId?: string): void {
    this.changes += 1;
    this.known.clear();
    for (const listener of this.accessListeners) listener();
  }

  /** Forgets what was read, because this key was changed. Called once the change is on disk. */
  keyChanged(keyId: string): void {
    this.changes += 1;
    this.known.clear();
    for (const listener of this.listeners) listener(keyId);
  }

  /** Writes down when keys were last used. */
  async flush(): Promise<void> {
    await this.uses.flush();
  }

  /** The same, for the last time. */
  async close(): Promise<void> {
    await this.uses.close();
  }

  private admit(known: Known, peer: string): Principal {
    this.refuseEnded(known.key);
    this.uses.note(known.principal, peer);
    return known.principal;
  }

  private refuseEnded(key: ApiKey): void {
    if (key.revokedAt !== undefined) throw new DomainError('unauthenticated', 'api_key_revoked', `the API key ${key.prefix} was revoked; use another one`);
    if (key.expiresAt !== undefined && key.expiresAt <= this.deps.clock.now()) {
      throw new DomainError('unauthenticated', 'api_key_expired', `the API key ${key.prefix} ended at ${new Date(key.expiresAt).toISOString()}; use another one`);
    }
  }

  private read(hash: string): Promise<Known> {
    const running = this.reading.get(hash);
    if (running) return running;
    const reading = this.readNow(hash).finally(() => this.reading.delete(hash));
    this.reading.set(hash, reading);
    return reading;
  }

  private async readNow(hash: string): Promise<Known> {
    const seen = this.changes;
    const readAt = this.deps.clock.monotonic();
    const key = await this.deps.uow.repos.apiKeys.findByHash(hash);
    // A key that was changed while it was read may be the old one.
    if (seen !== this.changes) return await this.readNow(hash);
    this.known.delete(hash);
    if (!key) throw keyUnknown();
    const known = { key, principal: principalOf(key), readAt };
    this.remember(hash, known);
    return known;
  }

  private remember(hash: string, known: Known): void {
    const [oldest] = this.known.keys();
    if (oldest !== undefined && this.known.size >= LARGEST_CACHE) this.known.delete(oldest);
    this.known.set(hash, known);
  }
}

function principalOf(key: ApiKey): Principal {
  return {
    keyId: key.id,
    keyPrefix: key.prefix,
    organizationId: key.organizationId,
    ownerUserId: key.ownerUserId,
    scopes: new Set(key.scopes),
    reach: undefined,
    allowedAddresses: [],
    roleId: 'owner',
    connections: key.allConnections ? 'all' : new Set(key.connectionIds),
    isAdmin: key.isAdmin,
    expiresAt: key.expiresAt,
  };
}

function keyUnknown(): DomainError {
  return keyInvalid('the API key is not known here; create one with `plantroom keys create`, or with CreateApiKey');
}

function keyInvalid(message: string): DomainError {
  return new DomainError('unauthenticated', 'api_key_invalid', message);
}
