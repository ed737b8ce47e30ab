import { createHmac, timingSafeEqual } from 'node:crypto';
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

/** Makes and reads page tokens. They are signed and bound to their list, so a forged or foreign one is refused. */
export class Cursors {
  constructor(private readonly secret: Uint8Array) {}

  /** `list` names the list with all that it was filtered by, the organization first. */
  encode(list: readonly string[], position: object): string {
    const body = Buffer.from(JSON.stringify(position));
    return Buffer.concat([this.seal(list, body), body]).toString('base64url');
  }

  /** Undefined for no token. Throws `validation_failed` on `field` for one that this list did not give out. */
  decode<Position>(list: readonly string[], token: string | undefined, field: string): Position | undefined {
    if (!token) return undefined;
    const raw = Buffer.from(token, 'base64url');
    const body = raw.subarray(16);
    if (raw.length < 18 || !timingSafeEqual(raw.subarray(0, 16), this.seal(list, body))) {
      throw validationFailed([{ field, description: 'is not a token that this list gave out; give one that it did, with the same filters' }]);
    }
    return JSON.parse(body.toString()) as Position;
  }

  private seal(list: readonly string[], body: Uint8Array): Buffer {
    return createHmac('sha256', this.secret).update(JSON.stringify(list)).update(body).digest().subarray(0, 16);
  }
}
