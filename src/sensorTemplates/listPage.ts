import { pageOf, pageSize, type Cursors } from '../kernel/pages';
import { positionOf, type OwnThenSystemPosition } from './sensorTemplate';

/** One page of a list, or all of it. */
export interface ListPage<Item> {
  readonly items: readonly Item[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** All of a list, or one page of it when `size` or `token` is given. `read` returns at most `limit` items (undefined: all) after a position. */
export async function listPage<Item extends Parameters<typeof positionOf>[0]>(
  cursors: Cursors,
  list: readonly string[],
  size: number | undefined,
  token: string,
  read: (after: OwnThenSystemPosition | undefined, limit: number | undefined) => Promise<readonly Item[]>,
): Promise<ListPage<Item>> {
  if (size === undefined && token === '') return { items: await read(undefined, undefined), nextPageToken: '' };
  const limit = pageSize(size);
  const rows = await read(cursors.decode<OwnThenSystemPosition>(list, token, 'pageToken'), limit + 1);
  const { items, next } = pageOf(rows, limit, positionOf);
  return { items, nextPageToken: next ? cursors.encode(list, next) : '' };
}
