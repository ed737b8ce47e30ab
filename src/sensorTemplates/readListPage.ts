import { getPage, getPageSize, type Cursors } from '../kernel/pages';
import { getPosition, type OwnThenSystemPosition } from './sensorTemplate';

/** One page of a list, or the whole list. */
export interface ListPage<Item> {
  readonly items: readonly Item[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/**
 * Reads the whole list, or one page of it when `size` or `token` is set. `read` returns at most `limit` items
 * (undefined: all) after a position.
 */
export async function readListPage<Item extends Parameters<typeof getPosition>[0]>(
  cursors: Cursors,
  listKey: readonly string[],
  size: number | undefined,
  token: string,
  read: (after: OwnThenSystemPosition | undefined, limit: number | undefined) => Promise<readonly Item[]>,
): Promise<ListPage<Item>> {
  if (!size && token === '') return { items: await read(undefined, undefined), nextPageToken: '' };
  const limit = getPageSize(size);
  const rows = await read(cursors.decode<OwnThenSystemPosition>(listKey, token, 'pageToken'), limit + 1);
  const { items, next } = getPage(rows, limit, getPosition);
  return { items, nextPageToken: next ? cursors.encode(listKey, next) : '' };
}
