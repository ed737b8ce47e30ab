import type { Dashboard, DashboardContent, Viewer, WidgetInput } from './dashboard';
import { canView } from './dashboard';
import type { DashboardRepositories } from './dashboardRepositories';
import { createDashboard, type DashboardOptions } from './dashboardService';
import { createConnectionContent, createModelContent, createOverviewContent, type SiteExcerpt } from './starterContent';
import type { SiteDevice } from './siteRepository';
import type { CreatedStarter } from './starterRepository';

/** A starter dashboard that the organization can have. */
interface Starter {
  /** `overview`, `connection:<id>` or `model:<id>`. */
  readonly key: string;
  readonly name: string;
  readonly description: string;
  /** Reads the site and creates the content. */
  readonly createContent: (repos: DashboardRepositories) => Promise<DashboardContent<WidgetInput>>;
}

/** The starter dashboards, with those of earlier calls. */
export interface StarterResult {
  readonly created: readonly Dashboard[];
  readonly existing: readonly Dashboard[];
}

const MAX_CONNECTIONS = 50;
const MAX_MODELS = 50;
/** A starter dashboard shows at most the sensors of this many devices. */
const MAX_DEVICES = 100;
const MAX_DEVICES_OF_MODEL = 20;
const MAX_NAME_LENGTH = 200;
const SOURCE = { root: 'content', message: 'Starter dashboard', allowsUnknownKinds: false };

/**
 * Creates an overview, a dashboard for each connection and one for each device model. Creates only what no call has
 * created before; `again`: also what was created and then deleted. Throws `too_many_dashboards`.
 */
export async function createStarterDashboards(
  options: DashboardOptions,
  viewer: Viewer,
  again: boolean,
): Promise<StarterResult> {
  const { repos } = options.work;
  const starters = await listStarters(repos, viewer.organizationId);
  const earlierByKey = new Map((await repos.starters.list(viewer.organizationId)).map((one) => [one.starterKey, one]));
  const created: Dashboard[] = [];
  const existing: Dashboard[] = [];
  for (const starter of starters) {
    const earlier = earlierByKey.get(starter.key);
    const found = earlier && (await repos.dashboards.find(viewer.organizationId, earlier.dashboardId))?.dashboard;
    if (found) {
      if (canView(found, viewer)) existing.push(found);
    } else if (!earlier || again) {
      const dashboard = await createStarter(options, viewer, starter, earlier);
      if (dashboard) created.push(dashboard);
    }
  }
  return { created, existing };
}

/** Creates one starter dashboard; undefined if a concurrent call has created it. */
async function createStarter(
  { work, feed, clock }: DashboardOptions,
  viewer: Viewer,
  { key, name, description, createContent }: Starter,
  earlier: CreatedStarter | undefined,
): Promise<Dashboard | undefined> {
  const { organizationId } = viewer;
  const content = await createContent(work.repos);
  return await work.transaction(async (repos, db) => {
    await repos.members.lockOrganization(organizationId);
    const current = (await repos.starters.list(organizationId)).find(({ starterKey }) => starterKey === key);
    if (current?.dashboardId !== earlier?.dashboardId) return undefined;
    const freeName = await findFreeName(repos, organizationId, name);
    const dashboard = await createDashboard(
      { repos, db, feed },
      viewer,
      { name: freeName, description, visibility: 'organization', editorRoleIds: [], content },
      clock.now(),
      SOURCE,
    );
    await repos.starters.set(organizationId, { starterKey: key, dashboardId: dashboard.id });
    return dashboard;
  });
}

/** Lists the starter dashboards that fit the connections and devices of the organization. */
async function listStarters(repos: DashboardRepositories, organizationId: string): Promise<Starter[]> {
  const connections = await repos.starters.listConnections(organizationId, MAX_CONNECTIONS);
  const models = await repos.starters.listModels(organizationId, MAX_MODELS);
  return [
    {
      key: 'overview',
      name: 'Site overview',
      description: 'Connections, executions and the most common sensors of the site.',
      createContent: async ({ starters, site }) =>
        createOverviewContent(
          await readExcerpt(site, organizationId, await starters.listDevices(organizationId, MAX_DEVICES)),
        ),
    },
    ...connections.map(({ id, name }): Starter => ({
      key: `connection:${id}`,
      name: `Connection ${name.slice(0, MAX_NAME_LENGTH)}`,
      description: 'The status of the connection and the most common sensors of its devices.',
      createContent: async ({ starters, site }) =>
        createConnectionContent(
          name,
          await readExcerpt(site, organizationId, await starters.listDevices(organizationId, MAX_DEVICES, id)),
        ),
    })),
    ...models.map(({ id, name }): Starter => ({
      key: `model:${id}`,
      name: `Model ${name.slice(0, MAX_NAME_LENGTH)}`,
      description: 'The sensors of one device of this model; choose the device at the top.',
      createContent: async ({ starters, site }) =>
        createModelContent(
          await readExcerpt(
            site,
            organizationId,
            await starters.listDevicesOfModel(organizationId, id, MAX_DEVICES_OF_MODEL),
          ),
        ),
    })),
  ];
}

async function readExcerpt(
  site: DashboardRepositories['site'],
  organizationId: string,
  devices: readonly SiteDevice[],
): Promise<SiteExcerpt> {
  const sensors = await site.listSensorsOfDevices(
    organizationId,
    devices.map(({ id }) => id),
  );
  return { devices, sensors };
}

/** Returns the name, with a number if another dashboard has it. */
async function findFreeName(repos: DashboardRepositories, organizationId: string, name: string): Promise<string> {
  let candidate = name;
  for (let number = 2; await repos.dashboards.hasName(organizationId, candidate); number += 1)
    candidate = `${name} ${number}`;
  return candidate;
}
