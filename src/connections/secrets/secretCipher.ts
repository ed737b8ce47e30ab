import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { DomainError } from '../../kernel/errors';
import type { SecretKey } from './secretKey';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 'v1';

/**
 * Encrypts secrets with AES-256-GCM and a random nonce, bound to a context (their place in the database), so that a
 * secret cannot be decrypted in another place.
 */
export class SecretCipher {
  constructor(private readonly key: Pick<SecretKey, 'get' | 'getOrCreate' | 'findNext' | 'mustCreate'>) {}

  /** Whether the next encryption creates a key. */
  get willCreateKey(): boolean {
    return this.key.mustCreate;
  }

  /** Encrypts a JSON value in the format of encryptSecret. Throws `secrets_unreadable` without a usable key. */
  encrypt(context: readonly string[], value: unknown): string {
    return encryptSecret(this.key.getOrCreate(), context, value);
  }

  /**
   * Decrypts a value. Throws `secrets_unreadable` if there is no usable key, it is not the right one, or the stored
   * text was changed.
   */
  decrypt(context: readonly string[], encrypted: string): unknown {
    const key = this.key.get();
    if (findKeyIdIn(encrypted) === getKeyId(key)) return decryptSecret([key], context, encrypted);
    const nextKey = this.key.findNext(); // the key of an unfinished rotation
    return decryptSecret(nextKey ? [key, nextKey] : [key], context, encrypted);
  }
}

/** Encrypts a JSON value as `v1.<key id>.<nonce, tag and ciphertext in base64url>`. */
export function encryptSecret(key: Buffer, context: readonly string[], value: unknown): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(toAssociatedData(context));
  const ciphertext = Buffer.concat([cipher.update(JSON.stringify(value), 'utf8'), cipher.final()]);
  const content = Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]).toString('base64url');
  return `${VERSION}.${getKeyId(key)}.${content}`;
}

/**
 * Decrypts a value with the key that it names. Throws `secrets_unreadable` if it is none of these keys, or the stored
 * text was changed.
 */
export function decryptSecret(keys: readonly Buffer[], context: readonly string[], encrypted: string): unknown {
  const keyId = findKeyIdIn(encrypted);
  const [, , content] = encrypted.split('.');
  if (keyId === undefined || content === undefined)
    throw secretUnreadable('has a format that this version of Plantroom does not support; set it again');
  const key = keys.find((candidate) => getKeyId(candidate) === keyId);
  if (!key) throw secretUnreadable('was encrypted with a different key; restore the old key, or set it again');
  const bytes = Buffer.from(content, 'base64url');
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const ciphertext = bytes.subarray(NONCE_BYTES + TAG_BYTES);
  try {
    const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(toAssociatedData(context)).setAuthTag(tag);
    const text = Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8');
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw secretUnreadable('was changed in the database; set it again', error);
  }
}

/** Returns the id of the key that encrypted a value; undefined for a format that this version does not support. */
export function findKeyIdIn(encrypted: string): string | undefined {
  const [version, keyId] = encrypted.split('.');
  return version === VERSION ? keyId : undefined;
}

/** Returns the context as the associated data of AES-GCM: not stored, but decryption fails with any other one. */
function toAssociatedData(context: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(['plantroom', ...context]));
}

/** Identifies a key without revealing anything about it. */
export function getKeyId(key: Buffer): string {
  return createHmac('sha256', key).update('plantroom key id').digest('hex').slice(0, 16);
}

/** Creates the error for a stored secret that cannot be decrypted. */
function secretUnreadable(reason: string, cause?: unknown): DomainError {
  return new DomainError(
    'conflict',
    'secrets_unreadable',
    `a secret field of the connection ${reason}`,
    cause === undefined ? {} : { cause },
  );
}
