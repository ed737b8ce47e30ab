import { MemberRepository, RoleRepository } from '../access';
import type { Db } from '../database';
import { DashboardRepository } from './dashboardRepository';
import { RevisionRepository } from './revisionRepository';
import { SiteRepository } from './siteRepository';
import { StarterRepository } from './starterRepository';
import { WidgetRepository } from './widgetRepository';

/** The repositories of this module, bound to one connection or transaction. */
export interface DashboardRepositories {
  readonly dashboards: DashboardRepository;
  readonly widgets: WidgetRepository;
  readonly revisions: RevisionRepository;
  readonly starters: StarterRepository;
  readonly site: SiteRepository;
  readonly members: MemberRepository;
  readonly roles: RoleRepository;
}

/** Creates the repositories of a unit of work. */
export function createDashboardRepositories(db: Db): DashboardRepositories {
  return {
    dashboards: new DashboardRepository(db),
    widgets: new WidgetRepository(db),
    revisions: new RevisionRepository(db),
    starters: new StarterRepository(db),
    site: new SiteRepository(db),
    members: new MemberRepository(db),
    roles: new RoleRepository(db),
  };
}
