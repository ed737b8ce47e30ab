import { note, showTable } from '../output';
import { withClient, type ListedDashboard } from './dashboardClient';
import { printFormatted, toPlainRow, type DashboardFlags } from './format';

/** Flags of `plantroom dashboards starter`. */
export interface StarterFlags extends DashboardFlags {
  readonly again?: boolean;
}

/** A response of CreateStarterDashboards. */
interface StarterResponse {
  readonly created: readonly ListedDashboard[];
  readonly existing: readonly ListedDashboard[];
  readonly remainingCount: number;
}

/** Runs `plantroom dashboards starter`. */
export async function runStarter(flags: StarterFlags): Promise<void> {
  await withClient(flags, async (client) => {
    const response = (await client.call('DashboardService/CreateStarterDashboards', {
      again: flags.again === true,
    })) as unknown as StarterResponse;
    printFormatted(response, flags, () => {
      const rows = [
        ...response.created.map(({ id, name }) => toPlainRow({ name, state: 'created', id })),
        ...response.existing.map(({ id, name }) => toPlainRow({ name, state: 'exists', id })),
      ];
      showTable(rows, ['name', 'state', 'id'], {});
    });
    if (response.remainingCount > 0)
      note(
        `plantroom: ${response.remainingCount} starter dashboards remain; run the command again to create the next ones`,
      );
    else if (response.created.length === 0 && !flags.again)
      note('plantroom: nothing to create; starter dashboards that were deleted are created with --again');
  });
}
