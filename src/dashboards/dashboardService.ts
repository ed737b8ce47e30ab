import { normalizeForSearch, type UnitOfWork } from '../database';
import type { ChangeFeed } from '../kernel/changeFeed';
import type { Clock } from '../kernel/clock';
import { notFound, throwIfAny } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { newId } from '../kernel/ids';
import { getPage, getPageSize, type Cursors } from '../kernel/pages';
import { applyContent, EMPTY_CONTENT } from './content';
import { checkReferences, listReferences } from './contentReferences';
import { assertWithinLimits, checkContent } from './contentRules';
import {
  MAX_DASHBOARDS,
  tooManyDashboards,
  type Dashboard,
  type DashboardContent,
  type DashboardWithContent,
  type Viewer,
  type Visibility,
  type WidgetInput,
} from './dashboard';
import { assertCanShare, loadViewable, lockEditable } from './dashboardAccess';
import type { SensorOfDevice } from './dashboardRepository';
import type { DashboardRepositories } from './dashboardRepositories';
import { writeContent, type DashboardTransaction } from './writeContent';

/** Dependencies of the services of this module. */
export interface DashboardOptions {
  readonly work: UnitOfWork<DashboardRepositories>;
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly feed: ChangeFeed;
}

/** The dashboard to create. */
export interface NewDashboard {
  readonly name: string;
  readonly description: string;
  readonly visibility: Visibility;
  readonly editorRoleIds: readonly string[];
  readonly content: DashboardContent<WidgetInput>;
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

/** Where the content of a new dashboard comes from. */
interface ContentSource {
  /** The path of the content in the request. */
  readonly root: string;
  /** The comment of the first revision. */
  readonly message: string;
  readonly allowsUnknownKinds: boolean;
}

const FROM_REQUEST: ContentSource = { root: 'content', message: '', allowsUnknownKinds: false };

/** Creates a dashboard in a transaction; see DashboardService.create. */
export async function createDashboard(
  transaction: DashboardTransaction,
  viewer: Viewer,
  newDashboard: NewDashboard,
  now: number,
  source: ContentSource = FROM_REQUEST,
): Promise<DashboardWithContent> {
  const { organizationId, userId } = viewer;
  await assertCreatable(transaction.repos, viewer, newDashboard, source);
  const { content, ...fields } = newDashboard;
  const dashboard: Dashboard = {
    ...fields,
    id: newId(),
    organizationId,
    ownerUserId: userId,
    revision: 1,
    updatedByUserId: userId,
    createdAt: now,
    updatedAt: now,
    widgetCount: content.widgets.length,
  };
  const change = { dashboard, field: `${source.root}.layout` };
  const applied = applyContent({ ...content, widgets: [], layout: [] }, content, change);
  return await writeContent(transaction, { dashboard, isNew: true, applied, message: source.message });
}

/** Throws the errors of DashboardService.create, except `name_taken`. Call it inside a transaction. */
export async function assertCreatable(
  repos: DashboardRepositories,
  viewer: Viewer,
  { content, editorRoleIds }: NewDashboard,
  { root, allowsUnknownKinds }: ContentSource,
): Promise<void> {
  const { organizationId } = viewer;
  assertWithinLimits(content);
  throwIfAny([
    ...checkContent(content, root, () => allowsUnknownKinds),
    ...(await checkReferences(repos, organizationId, listReferences(content, root), EMPTY_CONTENT)),
  ]);
  await assertRolesExist(repos, viewer, editorRoleIds);
  // The lock makes two concurrent calls count one after the other.
  await repos.members.lockOrganization(organizationId);
  if ((await repos.dashboards.count(organizationId)) >= MAX_DASHBOARDS) throw tooManyDashboards();
}

/** Returns the fields of a dashboard that every change sets. */
export function nextRevision(
  { revision }: Dashboard,
  { userId }: Viewer,
  now: number,
): Pick<Dashboard, 'revision' | 'updatedByUserId' | 'updatedAt'> {
  return { revision: revision + 1, updatedByUserId: userId, updatedAt: now };
}

/**
 * Checks who may view and edit the dashboard after a change. Values that stay the same are not checked: any editor may
 * send them back, and a role may have been deleted. Throws `dashboard_not_editable`, `role_not_found`.
 */
async function assertSharingAllowed(
  repos: DashboardRepositories,
  viewer: Viewer,
  dashboard: Dashboard,
  { visibility = dashboard.visibility, editorRoleIds = dashboard.editorRoleIds }: DashboardChange,
): Promise<void> {
  const addedRoleIds = getAdded(dashboard.editorRoleIds, editorRoleIds);
  const removedRoleIds = getAdded(editorRoleIds, dashboard.editorRoleIds);
  if (visibility !== dashboard.visibility || addedRoleIds.length + removedRoleIds.length > 0)
    await assertCanShare(repos, viewer, dashboard);
  await assertRolesExist(repos, viewer, addedRoleIds);
}

/** Throws `role_not_found`. */
async function assertRolesExist(
  { roles }: DashboardRepositories,
  { organizationId }: Viewer,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  const existing = await roles.findExistingIds(organizationId, ids);
  const missing = ids.find((id) => !existing.has(id));
  if (missing !== undefined) throw notFound('role', missing);
}

/** Returns the items that only the new list has. */
function getAdded(current: readonly string[], wanted: readonly string[]): string[] {
  return wanted.filter((item) => !current.includes(item));
}

async function findSensor(
  { site }: DashboardRepositories,
  organizationId: string,
  sensorId: string,
): Promise<SensorOfDevice> {
  const [sensor] = await site.findSensors(organizationId, [sensorId]);
  return sensor ?? { sensorId, deviceId: undefined, keyName: undefined };
}
