import { throwIfAny } from '../kernel/errors';
import { newId } from '../kernel/ids';
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
import { assertRolesExist } from './dashboardAccess';
import type { DashboardRepositories } from './dashboardRepositories';
import { writeContent, type DashboardTransaction } from './writeContent';

/** The dashboard to create. */
export interface NewDashboard {
  readonly name: string;
  readonly description: string;
  readonly visibility: Visibility;
  readonly editorRoleIds: readonly string[];
  readonly content: DashboardContent<WidgetInput>;
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
