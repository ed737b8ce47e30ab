import type { Request, UnaryMethod } from '../calls/definitions';
import type { CallOptions } from '../options';

/** A request for a page: by `pageToken`, of executions by `before`. */
export type PageRequest = { pageToken: string } | { before: string };

/** A page: where the next one begins, and one list. */
export type Page = { nextPageToken: string } | { nextCursor?: string | undefined };

/** What a page lists. */
export type ItemOf<Response> = { [Key in keyof Response]: Response[Key] extends readonly (infer Item)[] ? Item : never }[keyof Response];

/**
 * The pages of a list, one call for each, all else of the request as it is: `pagesOf(client.devices.listDigitalDevices, { limit: 200 })`. Without a size
 * (`pageSize` or `limit`) they are as large as the method says. Rejects as the method does.
 *
 * A list may change while it is read. What is there all the time and is not moved comes exactly once; what is created or deleted meanwhile may come or
 * not; what moves in the order of the list (an execution that changes, a discovered device that sends) may be missed or come twice: watch these instead.
 */
export async function* pagesOf<Req extends PageRequest, Res extends Page>(method: UnaryMethod<Req, Res>, request: Request<Req>, options: CallOptions = {}): AsyncIterableIterator<Res> {
  let next: Record<string, unknown> = { ...request };
  for (;;) {
    const page = await method(next as Request<Req>, options);
    yield page;
    const token = 'nextPageToken' in page ? page.nextPageToken : page.nextCursor;
    if (!token) return;
    next = { ...next, ...('nextPageToken' in page ? { pageToken: token } : { before: token }) };
    // What was passed over is behind the token.
    delete next.offset;
  }
}

/** The items of a list, page by page, as pagesOf: `for await (const device of eachOf(client.devices.listDigitalDevices, {}))`. */
export async function* eachOf<Req extends PageRequest, Res extends Page>(method: UnaryMethod<Req, Res>, request: Request<Req>, options: CallOptions = {}): AsyncIterableIterator<ItemOf<Res>> {
  for await (const page of pagesOf(method, request, options)) yield* itemsOf(page);
}

/** The one list that a page holds. */
function itemsOf<Res extends Page>(page: Res): ItemOf<Res>[] {
  const lists = Object.values(page).filter((value) => Array.isArray(value));
  if (lists.length !== 1) throw new TypeError(`a page with ${lists.length} lists: read it by pagesOf`);
  return lists[0] as ItemOf<Res>[];
}
