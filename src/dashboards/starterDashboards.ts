import { DomainError } from '../kernel/errors';
import {
  canView,
  MAX_DASHBOARDS,
  type Dashboard,
  type DashboardContent,
  type Viewer,
  type WidgetInput,
} from './dashboard';
import type { DashboardRepositories } from './dashboardRepositories';
import { createDashboard } from './createDashboard';
import type { DashboardOptions } from './dashboardService';
import { createConnectionContent, createModelContent, createOverviewContent, type SiteExcerpt } from './starterContent';
import type { SiteDevice, SiteRepository } from './siteRepository';

/** A starter dashboard that the organization can have. */
interface Starter {
  /** `overview`, `connection:<id>` or `model:<id>`. */
  readonly key: string;
  readonly name: string;
  readonly description: string;
  /** Reads the devices whose sensors the dashboard shows. */
  readonly listDevices: (site: SiteRepository) => Promise<SiteDevice[]>;
  readonly createContent: (excerpt: SiteExcerpt) => DashboardContent<WidgetInput>;
}

/** The starter dashboards, with those of earlier calls. */
interface StarterResult {
  readonly created: readonly Dashboard[];
  readonly existing: readonly Dashboard[];
  /** The number of starter dashboards that the call did not create, but a later call can. */
  readonly remainingCount: number;
}

/** The maximum number of starter dashboards that a call creates. */
const MAX_CREATED = 100;
/** A starter dashboard shows at most the sensors of this many devices. */
const MAX_DEVICES = 100;
const MAX_DEVICES_OF_MODEL = 20;
const MAX_NAME_LENGTH = 200;
const SOURCE = { root: 'content', message: 'Starter dashboard', allowsUnknownKinds: false };

/**
 * Creates an overview, a dashboard for each connection and one for each device model, at most MAX_CREATED. Creates only
 * what no call has created before; `again`: also what was created and then deleted. Throws `too_many_dashboards` if
 * there is no room for the first one.
 */
export async function createStarterDashboards(
  options: DashboardOptions,
  viewer: Viewer,
  again: boolean,
): Promise<StarterResult> {
  const { repos } = options.work;
  const { organizationId } = viewer;
  const starters = await listStarters(repos, organizationId);
  const earlier = await repos.starters.list(organizationId);
  const earlierIdByKey = new Map(earlier.map(({ starterKey, dashboardId }) => [starterKey, dashboardId]));
  const found = await repos.dashboards.findMany(organizationId, [...earlierIdByKey.values()]);
  const foundById = new Map(found.map((dashboard) => [dashboard.id, dashboard]));
  const findExisting = ({ key }: Starter): Dashboard | undefined => foundById.get(earlierIdByKey.get(key) ?? '');
  const missing = starters.filter((starter) => !findExisting(starter) && (again || !earlierIdByKey.has(starter.key)));
  const created: Dashboard[] = [];
  let remainingCount = missing.length;
  for (const starter of missing.slice(0, MAX_CREATED)) {
    try {
      const dashboard = await createStarter(options, viewer, starter, earlierIdByKey.get(starter.key));
      if (dashboard) created.push(dashboard);
    } catch (error) {
      if (created.length === 0 || !isTooManyDashboards(error)) throw error;
      break;
    }
    remainingCount -= 1;
  }
  const existing = starters.flatMap((starter) => findExisting(starter) ?? []).filter((one) => canView(one, viewer));
  return { created, existing, remainingCount };
}

/**
 * Creates one starter dashboard; undefined if a concurrent call has created it. `earlierId`: the dashboard that an
 * earlier call created for it.
 */
async function createStarter(
  { work, feed, clock }: DashboardOptions,
  viewer: Viewer,
  { key, name, description, listDevices, createContent }: Starter,
  earlierId: string | undefined,
): Promise<Dashboard | undefined> {
  const { organizationId } = viewer;
  const { site } = work.repos;
  const devices = await listDevices(site);
  const sensors = await site.listSensorsOfDevices(
    organizationId,
    devices.map(({ id }) => id),
  );
  const content = createContent({ devices, sensors });
  return await work.transaction(async (repos, db) => {
    await repos.members.lockOrganization(organizationId);
    if ((await repos.starters.findDashboardId(organizationId, key)) !== earlierId) return undefined;
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

function isTooManyDashboards(error: unknown): boolean {
  return error instanceof DomainError && error.reason === 'too_many_dashboards';
}

/** Lists the starter dashboards that fit the connections and devices of the organization. */
async function listStarters(repos: DashboardRepositories, organizationId: string): Promise<Starter[]> {
  // More of them cannot have a dashboard each.
  const connections = await repos.starters.listConnections(organizationId, MAX_DASHBOARDS);
  const models = await repos.starters.listModels(organizationId, MAX_DASHBOARDS);
  return [
    {
      key: 'overview',
      name: 'Site overview',
      description: 'Connections, executions and the most common sensors of the site.',
      listDevices: async (site) => await site.listDevices(organizationId, MAX_DEVICES),
      createContent: createOverviewContent,
    },
    ...connections.map(({ id, name }): Starter => ({
      key: `connection:${id}`,
      name: `Connection ${name.slice(0, MAX_NAME_LENGTH)}`,
      description: 'The status of the connection and the most common sensors of its devices.',
      listDevices: async (site) => await site.listDevicesOfConnection(organizationId, id, MAX_DEVICES),
      createContent: (excerpt) => createConnectionContent(name, excerpt),
    })),
    ...models.map(({ id, name }): Starter => ({
      key: `model:${id}`,
      name: `Model ${name.slice(0, MAX_NAME_LENGTH)}`,
      description: 'The sensors of one device of this model; choose the device at the top.',
      listDevices: async (site) => await site.listDevicesOfModel(organizationId, id, MAX_DEVICES_OF_MODEL),
      createContent: createModelContent,
    })),
  ];
}

/** Returns the name, with a number if another dashboard has it. */
async function findFreeName(repos: DashboardRepositories, organizationId: string, name: string): Promise<string> {
  let candidate = name;
  for (let number = 2; await repos.dashboards.hasName(organizationId, candidate); number += 1)
    candidate = `${name} ${number}`;
  return candidate;
}
