import { normalizeForSearch, type UnitOfWork } from '../database';
import type { ChangeFeed } from '../kernel/changeFeed';
import type { Clock } from '../kernel/clock';
import { checkEtag } from '../kernel/etags';
import { getPage, getPageSize, type Cursors } from '../kernel/pages';
import { createDashboard, type NewDashboard } from './createDashboard';
import type { Dashboard, DashboardWithContent, Viewer, Visibility } from './dashboard';
import { assertSharingAllowed, loadViewable, lockEditable } from './dashboardAccess';
import type { SensorOfDevice } from './dashboardRepository';
import type { DashboardRepositories } from './dashboardRepositories';

/** Dependencies of the services of this module. */
export interface DashboardOptions {
  readonly work: UnitOfWork<DashboardRepositories>;
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly feed: ChangeFeed;
}

/** Changes of a dashboard; undefined leaves a field unchanged. */
export interface DashboardChange {
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly visibility: Visibility | undefined;
  readonly editorRoleIds: readonly string[] | undefined;
}

/** A list query. An empty token means none. */
interface DashboardQuery {
  readonly search: string;
  readonly sensorId: string | undefined;
  readonly pageSize: number | undefined;
  readonly pageToken: string;
}

/** One page of dashboards; `nextPageToken` is empty on the last page. */
interface DashboardPage {
  readonly dashboards: readonly Dashboard[];
  readonly nextPageToken: string;
}

/** Manages dashboards. Assumes that the field rules of the proto are already checked. */
export class DashboardService {
  constructor(private readonly options: DashboardOptions) {}

  /** Lists the dashboards that the viewer may view, by name. Throws `validation_failed` for a token of another list. */
  async list(viewer: Viewer, { search, sensorId, pageSize, pageToken }: DashboardQuery): Promise<DashboardPage> {
    const { cursors, work } = this.options;
    const { organizationId, userId } = viewer;
    const listKey = [organizationId, 'dashboards', userId, search, sensorId ?? ''];
    const after = cursors.decode<{ name: string }>(listKey, pageToken, 'pageToken');
    const size = getPageSize(pageSize);
    const filter = {
      foldedSearch: normalizeForSearch(search),
      sensor: sensorId === undefined ? undefined : await findSensor(work.repos, organizationId, sensorId),
    };
    const rows = await work.repos.dashboards.list(viewer, filter, after?.name, size + 1);
    const page = getPage(rows, size, ({ name }) => ({ name: normalizeForSearch(name) }));
    return { dashboards: page.items, nextPageToken: page.next ? cursors.encode(listKey, page.next) : '' };
  }

  /** Returns a dashboard with its content. Throws `dashboard_not_found`. */
  async get(viewer: Viewer, id: string): Promise<DashboardWithContent> {
    const { dashboard, content } = await loadViewable(this.options.work.repos, viewer, id);
    return { ...dashboard, content };
  }

  /**
   * Creates a dashboard. Throws `validation_failed`, `name_taken`, `role_not_found`, `too_many_dashboards`, and the
   * limits of the content.
   */
  async create(viewer: Viewer, dashboard: NewDashboard): Promise<DashboardWithContent> {
    const { work, feed, clock } = this.options;
    return await work.transaction(
      async (repos, db) => await createDashboard({ repos, db, feed }, viewer, dashboard, clock.now()),
    );
  }

  /**
   * Changes the fields that are set; without any, the dashboard stays unchanged. Throws `dashboard_not_found`,
   * `dashboard_not_editable`, `version_conflict`, `name_taken`, `role_not_found`.
   */
  async update(
    viewer: Viewer,
    id: string,
    change: DashboardChange,
    etag: string | undefined,
  ): Promise<DashboardWithContent> {
    const { work, feed, clock } = this.options;
    return await work.transaction(async (repos, db) => {
      const { dashboard, content } = await lockEditable(repos, viewer, id);
      checkEtag('dashboard', dashboard.revision, etag);
      if (Object.values(change).every((value) => value === undefined)) return { ...dashboard, content };
      const { name, description, visibility, editorRoleIds } = change;
      await assertSharingAllowed(repos, viewer, dashboard, change);
      const changed: Dashboard = {
        ...dashboard,
        name: name ?? dashboard.name,
        description: description ?? dashboard.description,
        visibility: visibility ?? dashboard.visibility,
        editorRoleIds: editorRoleIds ?? dashboard.editorRoleIds,
        ...nextRevision(dashboard, viewer, clock.now()),
      };
      await repos.dashboards.update(viewer.organizationId, changed);
      db.afterCommit(() => feed.notify(viewer.organizationId));
      return { ...changed, content };
    });
  }

  /** Deletes a dashboard. Throws `dashboard_not_found`, `dashboard_not_editable`, `version_conflict`. */
  async delete(viewer: Viewer, id: string, etag: string | undefined): Promise<void> {
    const { work, feed } = this.options;
    await work.transaction(async (repos, db) => {
      const { dashboard } = await lockEditable(repos, viewer, id);
      checkEtag('dashboard', dashboard.revision, etag);
      await repos.dashboards.delete(viewer.organizationId, id);
      db.afterCommit(() => feed.notify(viewer.organizationId));
    });
  }
}

/** Returns the fields of a dashboard that every change sets. */
export function nextRevision(
  { revision }: Dashboard,
  { userId }: Viewer,
  now: number,
): Pick<Dashboard, 'revision' | 'updatedByUserId' | 'updatedAt'> {
  return { revision: revision + 1, updatedByUserId: userId, updatedAt: now };
}

async function findSensor(
  { site }: DashboardRepositories,
  organizationId: string,
  sensorId: string,
): Promise<SensorOfDevice> {
  const [sensor] = await site.findSensors(organizationId, [sensorId]);
  return sensor ?? { sensorId, deviceId: undefined, keyName: undefined };
}
