import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { DomainError } from '../../kernel/errors';
import type { SecretKey } from './secretKey';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 'v1';

/** Encrypts secrets: AES-256-GCM with a random nonce, bound to where they are kept, so that none opens in another place. */
export class SecretBox {
  constructor(private readonly key: Pick<SecretKey, 'get' | 'getOrMake' | 'isToBeMade'>) {}

  /** Whether the next seal makes a key. */
  get isFirst(): boolean {
    return this.key.isToBeMade;
  }

  /** The value, which JSON can hold, as `v1.<id of the key>.<nonce, tag and ciphertext in base64url>`. Throws `secrets_unreadable` without a usable key. */
  seal(place: readonly string[], value: unknown): string {
    const key = this.key.getOrMake();
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, key, nonce).setAAD(boundTo(place));
    const text = Buffer.concat([cipher.update(JSON.stringify(value), 'utf8'), cipher.final()]);
    return `${VERSION}.${keyIdOf(key)}.${Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64url')}`;
  }

  /** The value again. Throws `secrets_unreadable`: there is no usable key, it was another one, or somebody changed what was stored. */
  open(place: readonly string[], sealed: string): unknown {
    const key = this.key.get();
    const keyId = findKeyIdIn(sealed);
    const [, , content] = sealed.split('.');
    if (keyId === undefined || content === undefined) throw unreadable('has a form that this version of Plantroom does not know; give it again');
    if (keyId !== keyIdOf(key)) throw unreadable("was encrypted with another key than the server's; put the old key back, or give it again");
    const bytes = Buffer.from(content, 'base64url');
    try {
      const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
      decipher.setAAD(boundTo(place)).setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8');
      return JSON.parse(text) as unknown;
    } catch (error) {
      throw unreadable('was changed in the database; give it again', error);
    }
  }
}

/** The id of the key that a value was encrypted with; undefined: it has a form that this version does not know. */
export function findKeyIdIn(sealed: string): string | undefined {
  const [version, keyId] = sealed.split('.');
  return version === VERSION ? keyId : undefined;
}

function boundTo(place: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(['plantroom', ...place]));
}

/** Tells keys apart without telling anything of them. */
export function keyIdOf(key: Buffer): string {
  return createHmac('sha256', key).update('plantroom key id').digest('hex').slice(0, 16);
}

function unreadable(what: string, cause?: unknown): DomainError {
  return new DomainError('conflict', 'secrets_unreadable', `a secret field of the connection ${what}`, cause === undefined ? {} : { cause });
}
