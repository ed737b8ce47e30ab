import type { DashboardServiceServer } from '../gen/dashboard/v2/dashboard_service';
import type { CallContext } from '../api/pipeline/callContext';
import { withCheck, type HandlersOf } from '../api/pipeline/handlers';
import { toTimestamp } from '../kernel/timestamps';
import type { ContentService } from './contentService';
import type { Viewer } from './dashboard';
import {
  changeFromMessage,
  checkImportRequest,
  checkUpdateRequest,
  contentFromMessage,
  dashboardToMessage,
  documentToMessage,
  importFromMessage,
  importToMessage,
  listedDashboardToMessage,
  updateToMessage,
  visibilityFromMessage,
} from './dashboardMessages';
import type { DashboardOptions, DashboardService } from './dashboardService';
import type { DashboardWatch } from './dashboardWatch';
import { exportDashboard } from './exportDashboard';
import { importDashboard } from './importDashboard';
import { createStarterDashboards } from './starterDashboards';

/** The services that the handlers call. */
interface DashboardServices {
  readonly dashboards: DashboardService;
  readonly content: ContentService;
  readonly watch: DashboardWatch;
}

/** Returns the caller of a call. */
export function getViewer({ organizationId, principal }: CallContext): Viewer {
  return { organizationId, userId: principal.ownerUserId };
}

/** Handlers for dashboards. */
export function dashboardHandlers(
  options: DashboardOptions,
  { dashboards, content, watch }: DashboardServices,
): HandlersOf<DashboardServiceServer> {
  return {
    listDashboards: async ({ search = '', sensorId, pageSize, pageToken }, context) => {
      const page = await dashboards.list(getViewer(context), { search, sensorId, pageSize, pageToken });
      return { dashboards: page.dashboards.map(listedDashboardToMessage), nextPageToken: page.nextPageToken };
    },
    createDashboard: async (request, context) => {
      const { name, description, visibility, editorRoleIds } = request;
      const fields = { name, description, visibility: visibilityFromMessage(visibility), editorRoleIds };
      const newDashboard = { ...fields, content: contentFromMessage(request.content) };
      return dashboardToMessage(await dashboards.create(getViewer(context), newDashboard));
    },
    getDashboard: async ({ id }, context) => dashboardToMessage(await dashboards.get(getViewer(context), id)),
    updateDashboard: withCheck(checkUpdateRequest, async (request, context) =>
      dashboardToMessage(
        await dashboards.update(getViewer(context), request.id, changeFromMessage(request), request.etag),
      ),
    ),
    setDashboardContent: async ({ id, content: wanted, message, etag }, context) =>
      dashboardToMessage(await content.set(getViewer(context), id, contentFromMessage(wanted), { etag, message })),
    deleteDashboard: async ({ id, etag }, context) => {
      await dashboards.delete(getViewer(context), id, etag);
      return {};
    },
    exportDashboard: async ({ id }, context) =>
      documentToMessage(await exportDashboard(options.work.repos, getViewer(context), id)),
    importDashboard: withCheck(checkImportRequest, async (request, context) =>
      importToMessage(await importDashboard(options, getViewer(context), importFromMessage(request))),
    ),
    createStarterDashboards: async ({ again }, context) => {
      const { created, existing, remainingCount } = await createStarterDashboards(options, getViewer(context), again);
      return {
        created: created.map(listedDashboardToMessage),
        existing: existing.map(listedDashboardToMessage),
        remainingCount,
      };
    },
    listDashboardRevisions: async ({ id }, context) => {
      const revisions = await content.listRevisions(getViewer(context), id);
      return { revisions: revisions.map((revision) => ({ ...revision, createdAt: toTimestamp(revision.createdAt) })) };
    },
    restoreDashboardRevision: async ({ id, revision, etag }, context) =>
      dashboardToMessage(await content.restore(getViewer(context), id, revision, etag)),
    watchDashboards: async function* ({ ids }, context) {
      for await (const update of watch.watch(getViewer(context), ids, context.signal)) yield updateToMessage(update);
    },
  };
}
