import { status } from '@grpc/grpc-js';
import { DomainError } from '../../kernel/errors';
import { findNearest } from '../../kernel/findNearest';
import { type Json, JsonClient } from '../call/jsonClient';
import { getTarget, type TargetFlags } from '../call/target';
import { formatWireError, isServiceError, toWireError } from '../call/wireError';
import { AlreadyReportedError } from '../exit';
import { escapeJson, note } from '../output';
import { toPlainText } from '../plainText';
import type { FormatFlags } from './format';

/** A dashboard of a list, as the server returns it. */
export interface ListedDashboard {
  readonly id: string;
  readonly name: string;
  readonly visibility: string;
  readonly ownerUserId: string;
  readonly updatedAt: string;
}

const PAGE_SIZE = 200;

/** Runs work with a client of the server that the flags name. Prints a failed call in the same way as `call`. */
export async function withClient(
  flags: TargetFlags & FormatFlags,
  work: (client: JsonClient) => Promise<void>,
): Promise<void> {
  const target = getTarget(flags);
  try {
    await work(new JsonClient(target));
  } catch (error) {
    if (!isServiceError(error)) throw error;
    const wire = toWireError(error);
    const isJson = flags.json || flags.output === 'json';
    note(isJson ? escapeJson(JSON.stringify({ error: wire })) : `plantroom: ${formatWireError(wire, target.address)}`);
    throw new AlreadyReportedError(error.code === status.INVALID_ARGUMENT ? 2 : 1);
  }
}

/** Returns the dashboards that the caller may view, by name. `filter`: other fields of ListDashboards. */
export async function listDashboards(client: JsonClient, filter: Json = {}): Promise<ListedDashboard[]> {
  return (await listPages(client, 'DashboardService/ListDashboards', 'dashboards', filter)) as ListedDashboard[];
}

/** Returns the items of all pages of a list method with `pageSize`. */
export async function listPages(
  client: JsonClient,
  method: string,
  field: string,
  filter: Json = {},
): Promise<unknown[]> {
  const items: unknown[] = [];
  let pageToken = '';
  do {
    const page = await client.call(method, { ...filter, pageSize: PAGE_SIZE, pageToken });
    items.push(...(page[field] as unknown[]));
    pageToken = String(page['nextPageToken']);
  } while (pageToken !== '');
  return items;
}

/** Finds a dashboard by id or by name, case-insensitive: names are unique. Throws `dashboard_not_found`. */
export async function findDashboard(client: JsonClient, nameOrId: string): Promise<ListedDashboard> {
  const dashboards = await listDashboards(client);
  const wanted = nameOrId.toLowerCase();
  const found =
    dashboards.find(({ id }) => id === wanted) ?? dashboards.find(({ name }) => name.toLowerCase() === wanted);
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
