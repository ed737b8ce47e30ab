import type { Request, UnaryMethod } from '../calls/definitions';
import type { CallOptions } from '../options';

/** A request for a page: with `pageToken`, or for executions with `before`. */
export type PageRequest = { pageToken: string } | { before: string };

/** A page: the start of the next page, and one list. */
export type Page = { nextPageToken: string } | { nextCursor?: string | undefined };

/** The type of the items on a page. */
export type PageItem<Response> = {
  [Key in keyof Response]: Response[Key] extends readonly (infer Item)[] ? Item : never;
}[keyof Response];

/**
 * Iterates over the pages of a list with one call per page; the other fields of the request stay the same:
 * `paginatePages(client.devices.listDigitalDevices, { limit: 200 })`. Without a size (`pageSize` or `limit`), the
 * default of the method applies. Throws the errors of the method.
 *
 * A list may change while it is read. An item that exists the whole time and does not move is returned exactly once. An
 * item that is created or deleted in the meantime may be missing. An item that moves in the order of the list (an
 * execution that changes, a discovered device that sends) may be missing or returned twice: use a watch for these.
 */
export async function* paginatePages<Req extends PageRequest, Res extends Page>(
  method: UnaryMethod<Req, Res>,
  request: Request<Req>,
  options: CallOptions = {},
): AsyncIterableIterator<Res> {
  let nextRequest: Record<string, unknown> = { ...request };
  for (;;) {
    const page = await method(nextRequest as Request<Req>, options);
    yield page;
    const token = 'nextPageToken' in page ? page.nextPageToken : page.nextCursor;
    if (!token) return;
    nextRequest = { ...nextRequest, ...('nextPageToken' in page ? { pageToken: token } : { before: token }) };
    // The token already includes the offset, with which a request may start.
    delete nextRequest.offset;
  }
}

/**
 * Iterates over the items of a list, as paginatePages does over its pages: `for await (const device of
 * paginate(client.devices.listDigitalDevices, {}))`.
 */
export async function* paginate<Req extends PageRequest, Res extends Page>(
  method: UnaryMethod<Req, Res>,
  request: Request<Req>,
  options: CallOptions = {},
): AsyncIterableIterator<PageItem<Res>> {
  for await (const page of paginatePages(method, request, options)) yield* listItems(page);
}

/** Returns the only list of a page. */
function listItems<Res extends Page>(page: Res): PageItem<Res>[] {
  const lists = Object.values(page).filter((value) => Array.isArray(value));
  if (lists.length !== 1) throw new TypeError(`the page has ${lists.length} lists instead of one: use paginatePages`);
  return lists[0] as PageItem<Res>[];
}
