import type { Db } from '../database';
import type { ChangeFeed } from '../kernel/changeFeed';
import { toStoredContent, type AppliedContent } from './content';
import { listWidgetSensors } from './contentReferences';
import type { Dashboard, DashboardWithContent } from './dashboard';
import type { DashboardRepositories } from './dashboardRepositories';

/** A transaction that changes a dashboard. */
export interface DashboardTransaction {
  readonly repos: DashboardRepositories;
  readonly db: Db;
  readonly feed: ChangeFeed;
}

/** Valid content to store. */
interface ContentWrite {
  /** The dashboard as it will be: with its new revision, its time, and the user who changed it. */
  readonly dashboard: Dashboard;
  readonly isNew: boolean;
  /** The new content, and how its widgets differ from the stored ones. */
  readonly applied: AppliedContent;
  /** The comment of the revision. */
  readonly message: string;
}

/** Stores a dashboard with its content as a new revision, and notifies watchers after the commit. Throws `name_taken`. */
export async function writeContent(
  { repos, db, feed }: DashboardTransaction,
  { dashboard, isNew, applied, message }: ContentWrite,
): Promise<DashboardWithContent> {
  const { id, organizationId, revision, updatedAt: now } = dashboard;
  const { content, created, updated, deletedIds } = applied;
  if (isNew) await repos.dashboards.create(organizationId, dashboard, content);
  else await repos.dashboards.update(organizationId, dashboard, content);
  const changed = [...created, ...updated];
  const knownDevices = await repos.widgets.listSensorDevices(organizationId, id);
  const sensors = await listWidgetSensors(repos, organizationId, changed, knownDevices);
  await repos.widgets.delete(organizationId, id, deletedIds);
  await repos.widgets.create(organizationId, created);
  await repos.widgets.update(organizationId, updated);
  await repos.widgets.setSensors(
    organizationId,
    id,
    changed.map((widget) => widget.id),
    sensors,
  );
  await repos.revisions.add(
    organizationId,
    id,
    { revision, userId: dashboard.updatedByUserId, message, createdAt: now },
    JSON.stringify(toStoredContent(content)),
  );
  db.afterCommit(() => feed.notify(organizationId));
  return { ...dashboard, widgetCount: content.widgets.length, content };
}
