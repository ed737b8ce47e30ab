import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { validationFailed } from './errors';

/** One page of a list; `next` is the position after its last item, undefined on the last page. */
export interface Page<Item, Position> {
  readonly items: readonly Item[];
  readonly next: Position | undefined;
}

/** Position in a list that is ordered newest created first, with the id as tie-break. */
export interface CreatedPosition {
  readonly createdAt: number;
  readonly id: string;
}

const DEFAULT_PAGE = 50;
const LARGEST_PAGE = 200;

/** The size of a page: 50 when nothing (or 0) was asked for, at most 200. Negative numbers are refused by the field rules. */
export function pageSize(requested: number | undefined): number {
  return Math.min(requested || DEFAULT_PAGE, LARGEST_PAGE);
}

/** Cuts one item too many, which was read to see whether there is a next page. */
export function pageOf<Item, Position>(rows: readonly Item[], size: number, position: (last: Item) => Position): Page<Item, Position> {
  if (rows.length <= size) return { items: rows, next: undefined };
  const items = rows.slice(0, size);
  return { items, next: position(items[size - 1] as Item) };
}

/** One page of a list that the program itself holds, or all of it when neither `size` nor `token` is given. `list` as for Cursors. */
export function pageOfFixed<Item extends { readonly id: string }>(cursors: Cursors, list: readonly string[], items: readonly Item[], size: number | undefined, token: string): { items: readonly Item[]; nextPageToken: string } {
  if (size === undefined && token === '') return { items, nextPageToken: '' };
  const after = cursors.decode<{ id: string }>(list, token, 'pageToken');
  const start = after ? items.findIndex(({ id }) => id === after.id) + 1 : 0;
  const page = pageOf(items.slice(start), pageSize(size), ({ id }) => ({ id }));
  return { items: page.items, nextPageToken: page.next ? cursors.encode(list, page.next) : '' };
}

const MAC = 16;
const SALT = 8;
const BLOCK = 32;

/**
 * Makes and reads page tokens. They are sealed and bound to their list: a forged or foreign one is refused, and nobody reads out of one, or out of
 * two compared, how far a position has moved by what its reader is not shown.
 */
export class Cursors {
  private readonly cipherKey: Buffer;

  constructor(private readonly secret: Uint8Array) {
    this.cipherKey = createHmac('sha256', secret).update('what page tokens hold').digest();
  }

  /** `list` names the list with all that it was filtered by, the organization first. */
  encode(list: readonly string[], position: object): string {
    const json = JSON.stringify(position);
    const body = Buffer.concat([randomBytes(SALT), Buffer.from(json.padEnd(Math.ceil(json.length / BLOCK) * BLOCK))]);
    const mac = this.seal(list, body);
    return Buffer.concat([mac, createCipheriv('aes-256-ctr', this.cipherKey, mac).update(body)]).toString('base64url');
  }

  /** Undefined for no token. Throws `validation_failed` on `field` for one that this list did not give out. */
  decode<Position>(list: readonly string[], token: string | undefined, field: string): Position | undefined {
    if (!token) return undefined;
    const raw = Buffer.from(token, 'base64url');
    const body = this.open(raw);
    if (body.length <= SALT || !timingSafeEqual(raw.subarray(0, MAC), this.seal(list, body))) {
      throw validationFailed([{ field, description: 'is not a token that this list gave out; give one that it did, with the same filters' }]);
    }
    return JSON.parse(body.toString('utf8', SALT)) as Position;
  }

  private open(raw: Buffer): Buffer {
    if (raw.length < MAC) return raw.subarray(0, 0);
    return createDecipheriv('aes-256-ctr', this.cipherKey, raw.subarray(0, MAC)).update(raw.subarray(MAC));
  }

  /** What a token is recognised by, and the start of its cipher: so no two tokens are enciphered alike. */
  private seal(list: readonly string[], body: Uint8Array): Buffer {
    return createHmac('sha256', this.secret).update(JSON.stringify(list)).update(body).digest().subarray(0, MAC);
  }
}
