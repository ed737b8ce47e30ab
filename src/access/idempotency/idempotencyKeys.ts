import { type Database, deleteInBatches } from '../../database';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import { IdempotencyRepository, type StoredKey, type StoredResponse } from './idempotencyRepository';
import { ResponseCipher } from './responseCipher';

/** A request with an idempotency key (IdempotentRequest of the api module). */
interface KeyedRequest {
  readonly organizationId: string;
  readonly apiKeyId: string;
  readonly apiKey: string;
  readonly method: string;
  readonly idempotencyKey: string;
  readonly request: Uint8Array;
}

/** The response, and whether it was stored before (IdempotentResponse of the api module). */
interface KeyedResponse {
  readonly response: Uint8Array;
  readonly isReplay: boolean;
}

const RETENTION_MS = 24 * 3_600_000;
const DELETE_BATCH_SIZE = 200;

/**
 * Runs requests with an idempotency key only once. The key, the changes of the request and the response are stored in
 * one transaction, so a crash leaves all or nothing. If two equal requests run at the same time, the second one waits
 * for the transaction of the first (on both database engines). A failed request stores nothing and can be retried with
 * the same key.
 */
export class IdempotencyKeys {
  /** `expiryClock`: the clock for the expiry of stored responses. */
  constructor(
    private readonly deps: { readonly database: Database; readonly clock: Clock; readonly expiryClock: Clock },
  ) {}

  /**
   * Runs the work and stores its response, or returns the response that an earlier equal request stored. The work joins
   * the transaction of this method, so its changes and the stored response are committed together. Throws
   * `idempotency_key_reused` for a different request with the same key, and the errors of the work.
   */
  async runOnce(keyedRequest: KeyedRequest, work: () => Promise<Uint8Array>): Promise<KeyedResponse> {
    const { database, clock, expiryClock } = this.deps;
    const { organizationId, apiKeyId, apiKey, method, idempotencyKey, request } = keyedRequest;
    const cipher = new ResponseCipher(apiKey);
    const key: StoredKey = { organizationId, apiKeyId, keyHash: cipher.hash('key', method, idempotencyKey) };
    const requestHash = cipher.hash('request', method, request);
    return await database.joinedTransaction(async (db) => {
      const repository = new IdempotencyRepository(db);
      const notBefore = expiryClock.now() - RETENTION_MS;
      const isFirstRequest = await repository.claim(key, requestHash, { now: clock.now(), notBefore });
      if (!isFirstRequest) {
        const stored = assertSameRequest(await repository.find(key), requestHash);
        return { response: cipher.decrypt(key.keyHash, stored.response), isReplay: true };
      }
      const response = await work();
      await repository.store(key, cipher.encrypt(key.keyHash, response));
      return { response, isReplay: false };
    });
  }

  /**
   * Deletes stored responses older than 24 hours, in small batches so that other work can run in between. Call it every
   * hour.
   */
  async deleteExpired(): Promise<void> {
    const { database, expiryClock } = this.deps;
    const createdBefore = expiryClock.now() - RETENTION_MS;
    await deleteInBatches(
      database,
      DELETE_BATCH_SIZE,
      async (db, limit) => await new IdempotencyRepository(db).deleteBefore(createdBefore, limit),
    );
  }
}

/** Returns the stored response if the request is the one that it answers; otherwise throws `idempotency_key_reused`. */
function assertSameRequest(stored: StoredResponse | undefined, requestHash: string): StoredResponse {
  if (!stored) throw new Error('the stored response of an idempotency key was deleted while it was looked up');
  if (stored.requestHash === requestHash) return stored;
  throw new DomainError(
    'already_exists',
    'idempotency_key_reused',
    'the idempotency key was used for a different request within the last 24 hours: use a new key for a new request, or send the first request unchanged',
  );
}
