export { ContentService } from './contentService';
export { dashboardHandlers } from './dashboardHandlers';
export { DashboardRemovalRepository } from './dashboardRemovalRepository';
export { createDashboardRepositories } from './dashboardRepositories';
export { DashboardService } from './dashboardService';
export { countDeviceDashboards, countSensorDashboards } from './dashboardUses';
export { DashboardWatch } from './dashboardWatch';
export { widgetHandlers } from './widgetHandlers';
export { WIDGET_KINDS } from './widgetKinds';
