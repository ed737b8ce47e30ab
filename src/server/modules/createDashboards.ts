import {
  ContentService,
  createDashboardRepositories,
  dashboardHandlers,
  DashboardService,
  DashboardWatch,
  widgetHandlers,
} from '../../dashboards';
import { UnitOfWork } from '../../database';
import { ChangeFeed } from '../../kernel/changeFeed';
import type { Cursors } from '../../kernel/pages';
import type { Foundation } from '../foundation';

/** Creates the handlers of dashboards and their widgets. */
export function createDashboards({ database, clock }: Foundation, cursors: Cursors) {
  const work = new UnitOfWork(database, createDashboardRepositories);
  const options = { work, clock, cursors, feed: new ChangeFeed() };
  const content = new ContentService(options);
  return {
    dashboardHandlers: dashboardHandlers(options, {
      dashboards: new DashboardService(options),
      content,
      watch: new DashboardWatch(options),
    }),
    widgetHandlers: widgetHandlers(content),
  };
}
