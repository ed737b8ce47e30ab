import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Encrypts stored responses with a key that is derived from the caller's API key. A response can contain a new API key,
 * and the database stores only hashes of API keys, so only the caller can decrypt it. Idempotency keys and requests are
 * hashed with a second derived key, so that short idempotency keys and the secrets in a request cannot be guessed from
 * their hashes.
 */
export class ResponseCipher {
  private readonly hashKey: Buffer;
  private readonly cipherKey: Buffer;

  constructor(apiKey: string) {
    // HKDF derives independent keys from one secret; another label would make all stored responses unreadable.
    const derived = Buffer.from(hkdfSync('sha256', apiKey, '', 'plantroom idempotency v1', 2 * KEY_BYTES));
    this.hashKey = derived.subarray(0, KEY_BYTES);
    this.cipherKey = derived.subarray(KEY_BYTES);
  }

  /** Returns the HMAC-SHA256 in hex. `purpose` and `method` separate the hashes of different things. */
  hash(purpose: string, method: string, content: string | Uint8Array): string {
    return createHmac('sha256', this.hashKey).update(`${purpose}\0${method}\0`).update(content).digest('hex');
  }

  /**
   * Returns nonce, tag and ciphertext. `recordId`: identifies the record that stores it; it can only be decrypted for
   * the same record.
   */
  encrypt(recordId: string, response: Uint8Array): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.cipherKey, nonce).setAAD(Buffer.from(recordId));
    const ciphertext = Buffer.concat([cipher.update(response), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]);
  }

  /** Decrypts a stored response. Throws if it was modified, or belongs to another record or API key. */
  decrypt(recordId: string, stored: Uint8Array): Buffer {
    const decipher = createDecipheriv(CIPHER, this.cipherKey, stored.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(recordId)).setAuthTag(stored.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    return Buffer.concat([decipher.update(stored.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
  }
}
