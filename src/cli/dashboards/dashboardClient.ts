import { DomainError } from '../../kernel/errors';
import { findNearest } from '../../kernel/findNearest';
import { normalizeForSearch } from '../../kernel/normalizeForSearch';
import { type Json, JsonClient } from '../call/jsonClient';
import { getTarget } from '../call/target';
import { reportCallError } from '../call/wireError';
import { toPlainText } from '../plainText';
import { isJson, type DashboardFlags } from './format';

/** A dashboard of a list, as the server returns it. */
export interface ListedDashboard {
  readonly id: string;
  readonly name: string;
  readonly visibility: string;
  readonly ownerUserId: string;
  readonly updatedAt: string;
  readonly widgetCount: number;
}

/** The maximum page size of list methods. */
export const MAX_PAGE_SIZE = 200;

/** Runs work with a client of the server that the flags name. Prints a failed call in the same way as `call`. */
export async function withClient(flags: DashboardFlags, work: (client: JsonClient) => Promise<void>): Promise<void> {
  const target = getTarget(flags);
  try {
    await work(new JsonClient(target));
  } catch (error) {
    throw reportCallError(error, { address: target.address, isJson: isJson(flags) });
  }
}

/** Returns the dashboards that the caller may view, by name. `filter`: other fields of ListDashboards. */
export async function listDashboards(client: JsonClient, filter: Json = {}): Promise<ListedDashboard[]> {
  const request = { ...filter, pageSize: MAX_PAGE_SIZE };
  return (await listPages(client, 'DashboardService/ListDashboards', 'dashboards', request)) as ListedDashboard[];
}

/** Returns the items of all pages of a list method. `request`: with the size of a page. */
export async function listPages(client: JsonClient, method: string, field: string, request: Json): Promise<unknown[]> {
  const items: unknown[] = [];
  let pageToken = '';
  do {
    const page = await client.call(method, { ...request, pageToken });
    items.push(...(page[field] as unknown[]));
    pageToken = String(page['nextPageToken']);
  } while (pageToken !== '');
  return items;
}

/** Finds a dashboard by id or by name, case-insensitive: names are unique. Throws `dashboard_not_found`. */
export async function findDashboard(client: JsonClient, nameOrId: string): Promise<ListedDashboard> {
  const dashboards = await listDashboards(client);
  const wanted = normalizeForSearch(nameOrId);
  const found =
    dashboards.find(({ id }) => id === wanted) ?? dashboards.find(({ name }) => normalizeForSearch(name) === wanted);
  if (found) return found;
  const similar = findNearest(
    nameOrId,
    dashboards.map(({ name }) => name),
  );
  throw new DomainError(
    'not_found',
    'dashboard_not_found',
    `dashboard ${quote(nameOrId)} not found${similar === undefined ? '; run `plantroom dashboards list` to see the dashboards that you may view' : `; did you mean ${quote(similar)}?`}`,
  );
}

/** Quotes a name for a message. */
export function quote(name: string): string {
  return JSON.stringify(toPlainText(name, 80));
}
