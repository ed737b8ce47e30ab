import { notFound } from '../kernel/errors';
import { sortByLayout } from './content';
import {
  canView,
  notEditable,
  notShareable,
  type Dashboard,
  type DashboardContent,
  type Viewer,
  type Visibility,
  type Widget,
} from './dashboard';
import type { DashboardRepositories } from './dashboardRepositories';
import type { ContentFrame, FramedDashboard } from './dashboardRepository';

/** Returns a dashboard without its content, if the viewer may view it. Throws `dashboard_not_found`. */
export async function findViewable(
  { dashboards }: DashboardRepositories,
  viewer: Viewer,
  id: string,
): Promise<FramedDashboard> {
  const found = await dashboards.find(viewer.organizationId, id);
  if (!found || !canView(found.dashboard, viewer)) throw notFound('dashboard', id);
  return found;
}

/** A dashboard with its current content. */
export interface LoadedDashboard {
  readonly dashboard: Dashboard;
  readonly content: DashboardContent<Widget>;
}

/** Returns a dashboard that the viewer may view. Throws `dashboard_not_found`. */
export async function loadViewable(repos: DashboardRepositories, viewer: Viewer, id: string): Promise<LoadedDashboard> {
  const { organizationId } = viewer;
  for (;;) {
    const found = await findViewable(repos, viewer, id);
    const widgets = await repos.widgets.list(organizationId, id);
    // Another call may have changed the dashboard between the two queries; its widgets are then read again.
    const after = await repos.dashboards.find(organizationId, id);
    if (after?.dashboard.revision === found.dashboard.revision)
      return { dashboard: found.dashboard, content: toContent(found.frame, widgets) };
  }
}

/**
 * Locks a dashboard that the viewer may change until the end of the transaction. Throws `dashboard_not_found`,
 * `dashboard_not_editable`.
 */
export async function lockEditable(repos: DashboardRepositories, viewer: Viewer, id: string): Promise<LoadedDashboard> {
  const { organizationId } = viewer;
  const found = await repos.dashboards.lock(organizationId, id);
  if (!found || !canView(found.dashboard, viewer)) throw notFound('dashboard', id);
  if (!(await canEdit(repos, viewer, found.dashboard))) throw notEditable(id);
  const widgets = await repos.widgets.list(organizationId, id);
  return { dashboard: found.dashboard, content: toContent(found.frame, widgets) };
}

/** Changes of who may view and edit a dashboard; undefined leaves a field unchanged. */
interface SharingChange {
  readonly visibility: Visibility | undefined;
  readonly editorRoleIds: readonly string[] | undefined;
}

/**
 * Checks who may view and edit the dashboard after a change. Values that stay the same are not checked: any editor may
 * send them back, and a role may have been deleted. Throws `dashboard_not_editable`, `role_not_found`.
 */
export async function assertSharingAllowed(
  repos: DashboardRepositories,
  viewer: Viewer,
  dashboard: Dashboard,
  { visibility = dashboard.visibility, editorRoleIds = dashboard.editorRoleIds }: SharingChange,
): Promise<void> {
  const addedRoleIds = getAdded(dashboard.editorRoleIds, editorRoleIds);
  const removedRoleIds = getAdded(editorRoleIds, dashboard.editorRoleIds);
  if (visibility !== dashboard.visibility || addedRoleIds.length + removedRoleIds.length > 0)
    await assertCanShare(repos, viewer, dashboard);
  await assertRolesExist(repos, viewer, addedRoleIds);
}

/** Throws `role_not_found`. */
export async function assertRolesExist(
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

/** Throws `dashboard_not_editable` unless the viewer may change who views and edits the dashboard. */
async function assertCanShare(repos: DashboardRepositories, viewer: Viewer, dashboard: Dashboard): Promise<void> {
  if (dashboard.ownerUserId === viewer.userId || isAdmin(await findRoleId(repos, viewer))) return;
  throw notShareable(dashboard.id);
}

function toContent(frame: ContentFrame, widgets: readonly Widget[]): DashboardContent<Widget> {
  return { ...frame, widgets: sortByLayout(widgets, frame.layout) };
}

async function canEdit(repos: DashboardRepositories, viewer: Viewer, dashboard: Dashboard): Promise<boolean> {
  if (dashboard.ownerUserId === viewer.userId) return true;
  const roleId = await findRoleId(repos, viewer);
  return isAdmin(roleId) || (roleId !== undefined && dashboard.editorRoleIds.includes(roleId));
}

async function findRoleId({ members }: DashboardRepositories, viewer: Viewer): Promise<string | undefined> {
  return (await members.find(viewer.organizationId, viewer.userId))?.roleId;
}

function isAdmin(roleId: string | undefined): boolean {
  return roleId === 'owner' || roleId === 'admin';
}
