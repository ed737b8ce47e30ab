import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import { validationFailed } from './errors';

/** One page of a list; `next` is the position after its last item, undefined on the last page. */
export interface Page<Item, Position> {
  readonly items: readonly Item[];
  readonly next: Position | undefined;
}

/** Position in a list sorted by creation time, newest first, then by id. */
export interface CreatedPosition {
  readonly createdAt: number;
  readonly id: string;
}

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 200;

/** Returns the page size: 50 by default (also for 0), at most 200. The field rules reject negative numbers. */
export function getPageSize(requested: number | undefined): number {
  return Math.min(requested || DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE);
}

/**
 * Makes a page of rows that were read with `limit size + 1`: the extra row only shows that there is a next page, and is
 * removed. `getPosition` returns the position of the last item, which the next page starts after.
 */
export function getPage<Item, Position>(
  rows: readonly Item[],
  size: number,
  getPosition: (last: Item) => Position,
): Page<Item, Position> {
  if (rows.length <= size) return { items: rows, next: undefined };
  const items = rows.slice(0, size);
  return { items, next: getPosition(items[size - 1] as Item) };
}

/**
 * Returns one page of `items`, or all of them if neither `size` nor `token` is set. `listKey` identifies the list for
 * the token: its name and all filters, the organization first.
 */
export function getPageInMemory<Item extends { readonly id: string }>(
  cursors: Cursors,
  listKey: readonly string[],
  items: readonly Item[],
  size: number | undefined,
  token: string,
): { items: readonly Item[]; nextPageToken: string } {
  if (!size && token === '') return { items, nextPageToken: '' };
  const after = cursors.decode<{ id: string }>(listKey, token, 'pageToken');
  // The page starts after the last item of the previous page. If that item no longer exists, findIndex returns -1, and
  // the list starts again.
  const start = after ? items.findIndex(({ id }) => id === after.id) + 1 : 0;
  const page = getPage(items.slice(start), getPageSize(size), ({ id }) => ({ id }));
  return { items: page.items, nextPageToken: page.next ? cursors.encode(listKey, page.next) : '' };
}

const MAC_BYTES = 16;
const SALT_BYTES = 8;
const BLOCK_BYTES = 32;
/** Separates the encryption key from the MAC key. Another text would make all issued tokens invalid. */
const CIPHER_KEY_LABEL = 'what page tokens hold';

/**
 * Encodes and decodes page tokens. A token is encrypted, authenticated and bound to its list, so a forged token, and a
 * token of another list or organization, is rejected. A token reveals nothing about hidden items, not even compared
 * with another token: the position is padded to a multiple of BLOCK_BYTES and starts with random bytes.
 */
export class Cursors {
  // Use key objects: Node would create one from the bytes for each token, which is four times slower.
  private readonly macKey: KeyObject;
  private readonly cipherKey: KeyObject;

  constructor(secret: Uint8Array) {
    this.macKey = createSecretKey(secret);
    this.cipherKey = createSecretKey(createHmac('sha256', secret).update(CIPHER_KEY_LABEL).digest());
  }

  /** Encodes a position. `listKey`: the name of the list with all filters, the organization first. */
  encode(listKey: readonly string[], position: object): string {
    const json = JSON.stringify(position);
    const paddedLength = Math.ceil(json.length / BLOCK_BYTES) * BLOCK_BYTES;
    // Trailing spaces do not change the JSON.
    const body = Buffer.concat([randomBytes(SALT_BYTES), Buffer.from(json.padEnd(paddedLength))]);
    const mac = this.computeMac(listKey, body);
    const encryptedBody = createCipheriv('aes-256-ctr', this.cipherKey, mac).update(body);
    return Buffer.concat([mac, encryptedBody]).toString('base64url');
  }

  /**
   * Decodes a position; undefined for no token. Throws `validation_failed` on `field` if the token does not belong to
   * the list of `listKey`.
   */
  decode<Position>(listKey: readonly string[], token: string | undefined, field: string): Position | undefined {
    if (!token) return undefined;
    const bytes = Buffer.from(token, 'base64url');
    const body = this.decrypt(bytes);
    const isAuthentic =
      body.length > SALT_BYTES && timingSafeEqual(bytes.subarray(0, MAC_BYTES), this.computeMac(listKey, body));
    if (!isAuthentic) {
      throw validationFailed([
        {
          field,
          description: 'is not a page token of this list: use the token of the previous page, with the same filters',
        },
      ]);
    }
    return JSON.parse(body.toString('utf8', SALT_BYTES)) as Position;
  }

  /** Decrypts the part after the authentication tag, without verifying it; empty if the token is too short. */
  private decrypt(bytes: Buffer): Buffer {
    if (bytes.length < MAC_BYTES) return bytes.subarray(0, 0);
    return createDecipheriv('aes-256-ctr', this.cipherKey, bytes.subarray(0, MAC_BYTES)).update(
      bytes.subarray(MAC_BYTES),
    );
  }

  /**
   * Returns the authentication tag of a list key and a body. The tag is also the nonce of the encryption, so no two
   * different tokens use the same key stream.
   */
  private computeMac(listKey: readonly string[], body: Uint8Array): Buffer {
    return createHmac('sha256', this.macKey)
      .update(JSON.stringify(listKey))
      .update(body)
      .digest()
      .subarray(0, MAC_BYTES);
  }
}
