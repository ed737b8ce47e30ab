import { status } from '@grpc/grpc-js';
import type { JsonClient } from '../call/jsonClient';
import { isServiceError } from '../call/wireError';
import { showTable } from '../output';
import { listDashboards, listPages, MAX_PAGE_SIZE, withClient } from './dashboardClient';
import { printFormatted, toPlainRow, type DashboardFlags } from './format';

/** Flags of `plantroom dashboards list`. */
export interface ListFlags extends DashboardFlags {
  readonly search?: string;
}

/** A dashboard as the command prints it. */
interface ListedRow {
  readonly id: string;
  readonly name: string;
  readonly visibility: string;
  /** The name of the owner; the user id if the name is unknown. */
  readonly owner: string;
  /** The number of widgets. */
  readonly widgets: number;
  /** ISO 8601. */
  readonly changed: string;
}

/** Runs `plantroom dashboards list`. */
export async function runList(flags: ListFlags): Promise<void> {
  await withClient(flags, async (client) => {
    const dashboards = await listDashboards(client, flags.search === undefined ? {} : { search: flags.search });
    const nameByUserId = await findUserNames(client);
    const rows = dashboards.map(({ id, name, visibility, ownerUserId, widgetCount, updatedAt }): ListedRow => ({
      id,
      name,
      visibility,
      owner: nameByUserId.get(ownerUserId) ?? ownerUserId,
      widgets: widgetCount,
      changed: updatedAt,
    }));
    printFormatted(rows, flags, () =>
      showTable(
        rows.map(({ name, owner, ...row }) => ({ ...row, ...toPlainRow({ name, owner }) })),
        ['name', 'visibility', 'owner', 'widgets', 'changed'],
        {},
      ),
    );
  });
}

/** Returns the names of the members by user id; none if the key may not list them, because ids are shown then. */
async function findUserNames(client: JsonClient): Promise<ReadonlyMap<string, string>> {
  try {
    const request = { pageSize: MAX_PAGE_SIZE };
    const members = (await listPages(client, 'AccessControlService/ListMembers', 'members', request)) as {
      readonly userId: string;
      readonly name: string;
    }[];
    return new Map(members.filter(({ name }) => name !== '').map(({ userId, name }) => [userId, name]));
  } catch (error) {
    if (isServiceError(error) && error.code === status.PERMISSION_DENIED) return new Map();
    throw error;
  }
}
