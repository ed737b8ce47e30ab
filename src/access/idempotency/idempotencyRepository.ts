import type { Db } from '../../database';

/** Identifies a stored response. */
export interface StoredKey {
  readonly organizationId: string;
  readonly apiKeyId: string;
  /** The HMAC of the method and the idempotency key. */
  readonly keyHash: string;
}

/** A stored response. */
export interface StoredResponse {
  /** The HMAC of the request. */
  readonly requestHash: string;
  /** The encrypted response. */
  readonly response: Uint8Array;
}

/** The value of the column until `store` replaces it in the same transaction. */
const NO_RESPONSE = Buffer.alloc(0);

/**
 * Reads and writes the responses to requests with an idempotency key. Expects a caller that may act in the
 * organization.
 */
export class IdempotencyRepository {
  constructor(private readonly db: Db) {}

  /**
   * Claims an idempotency key for this transaction by inserting its row; waits for a concurrent transaction that has
   * claimed the key. Returns false if the key was used since `notBefore` (Unix milliseconds); `find` then returns the
   * response.
   */
  async claim(
    key: StoredKey,
    requestHash: string,
    { now, notBefore }: { readonly now: number; readonly notBefore: number },
  ): Promise<boolean> {
    await this.selectKey(key).where('created_at', '<', notBefore).delete(); // an expired key may be used again
    const { organizationId, apiKeyId, keyHash } = key;
    const row = {
      organization_id: organizationId,
      api_key_id: apiKeyId,
      key_hash: keyHash,
      request_hash: requestHash,
      response: NO_RESPONSE,
      created_at: now,
    };
    const claimed: unknown[] = await this.db
      .knex('idempotency_keys')
      .insert(row)
      .onConflict(['organization_id', 'api_key_id', 'key_hash'])
      .ignore()
      .returning('key_hash');
    return claimed.length === 1;
  }

  /** Returns the stored response; undefined if the key was not used. */
  async find(key: StoredKey): Promise<StoredResponse | undefined> {
    const row = await this.selectKey(key).first<{ request_hash: string; response: Uint8Array } | undefined>(
      'request_hash',
      'response',
    );
    return row && { requestHash: row.request_hash, response: row.response };
  }

  /** Stores the encrypted response of a key that this transaction has claimed. */
  async store(key: StoredKey, response: Uint8Array): Promise<void> {
    await this.selectKey(key).update({ response });
  }

  /**
   * Deletes at most `limit` keys that were used before a time (Unix milliseconds), of all organizations; returns how
   * many.
   */
  async deleteBefore(time: number, limit: number): Promise<number> {
    const expired = this.db.knex('idempotency_keys').where('created_at', '<', time).orderBy('created_at').limit(limit);
    const columns = ['organization_id', 'api_key_id', 'key_hash'];
    return await this.db.knex('idempotency_keys').whereIn(columns, expired.select(columns)).delete();
  }

  /** Selects the row of a key. */
  private selectKey({ organizationId, apiKeyId, keyHash }: StoredKey): ReturnType<Db['knex']> {
    return this.db
      .knex('idempotency_keys')
      .where({ organization_id: organizationId, api_key_id: apiKeyId, key_hash: keyHash });
  }
}
