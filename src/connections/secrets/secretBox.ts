import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { DomainError } from '../../kernel/errors';
import type { SecretKey } from './secretKey';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 'v1';

/** Encrypts secrets: AES-256-GCM with a random nonce, bound to where they are kept, so that none opens in another place. */
export class SecretBox {
  constructor(private readonly key: Pick<SecretKey, 'get' | 'getOrMake' | 'findNext' | 'isToBeMade'>) {}

  /** Whether the next seal makes a key. */
  get isFirst(): boolean {
    return this.key.isToBeMade;
  }

  /** The value, which JSON can hold, as sealWith says. Throws `secrets_unreadable` without a usable key. */
  seal(place: readonly string[], value: unknown): string {
    return sealWith(this.key.getOrMake(), place, value);
  }

  /** The value again. Throws `secrets_unreadable`: there is no usable key, it was another one, or somebody changed what was stored. */
  open(place: readonly string[], sealed: string): unknown {
    const key = this.key.get();
    if (findKeyIdIn(sealed) === keyIdOf(key)) return openWith([key], place, sealed);
    const next = this.key.findNext(); // a change of the key that did not come to its end
    return openWith(next ? [key, next] : [key], place, sealed);
  }
}

/** A value, which JSON can hold, as `v1.<id of the key>.<nonce, tag and ciphertext in base64url>`. */
export function sealWith(key: Buffer, place: readonly string[], value: unknown): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(boundTo(place));
  const text = Buffer.concat([cipher.update(JSON.stringify(value), 'utf8'), cipher.final()]);
  return `${VERSION}.${keyIdOf(key)}.${Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64url')}`;
}

/** The value again, by the key that it names. Throws `secrets_unreadable`: it is none of these, or somebody changed what was stored. */
export function openWith(keys: readonly Buffer[], place: readonly string[], sealed: string): unknown {
  const keyId = findKeyIdIn(sealed);
  const [, , content] = sealed.split('.');
  if (keyId === undefined || content === undefined) throw unreadable('has a form that this version of Plantroom does not know; give it again');
  const key = keys.find((one) => keyIdOf(one) === keyId);
  if (!key) throw unreadable("was encrypted with another key than the server's; put the old key back, or give it again");
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
