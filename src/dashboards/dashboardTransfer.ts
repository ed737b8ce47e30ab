import type { Viewer } from './dashboard';
import type { DashboardDocument } from './dashboardDocument';
import type { DashboardOptions } from './dashboardService';
import { exportDashboard } from './exportDashboard';
import { importDashboard, type DashboardImport, type ImportResult } from './importDashboard';
import { createStarterDashboards, type StarterResult } from './starterDashboards';

/** Creates dashboards from documents and from the site, and documents from dashboards. */
export class DashboardTransfer {
  constructor(private readonly options: DashboardOptions) {}

  /** See exportDashboard. */
  async export(viewer: Viewer, id: string): Promise<DashboardDocument> {
    return await exportDashboard(this.options.work.repos, viewer, id);
  }

  /** See importDashboard. */
  async import(viewer: Viewer, dashboardImport: DashboardImport): Promise<ImportResult> {
    return await importDashboard(this.options, viewer, dashboardImport);
  }

  /** See createStarterDashboards. */
  async createStarters(viewer: Viewer, again: boolean): Promise<StarterResult> {
    return await createStarterDashboards(this.options, viewer, again);
  }
}
