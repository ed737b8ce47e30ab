import {
  auditHandlers,
  AuditQueries,
  AuditLog,
  keyHandlers,
  memberHandlers,
  MemberService,
  roleHandlers,
  RoleService,
  createAccessRepositories,
  KeyService,
  ApiKeyAuthenticator,
  bootstrap,
  KeyAdministration,
  openCursors,
  OrganizationDeletion,
  organizationHandlers,
  OrganizationService,
  userProfileHandlers,
  UserService,
  type AccessRepositories,
  type Bootstrapped,
  type KeyFromCommandLine,
} from '../../src/access';
import { UnitOfWork, type Database } from '../../src/database';
import {
  AccessControlServiceClient,
  AccessControlServiceService,
} from '../../src/gen/organization_access_control/access_control_service';
import { OrganizationsServiceClient, OrganizationsServiceService } from '../../src/gen/organizations_service';
import { UserProfileServiceClient, UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import type { Logger } from '../../src/kernel/logger';
import type { Services } from '../../src/api/services';
import { MemoryLog, startEdge, type TestEdge } from '../support/edge';
import type { TestDatabase, TestEngine } from '../support/engines';
import { TestClock } from '../support/testClock';

/** What one process of this fixture has. */
export interface AccessProcess {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly authentication: ApiKeyAuthenticator;
  readonly users: UserService;
  readonly organizations: OrganizationService;
  readonly keys: KeyAdministration;
  readonly members: MemberService;
  readonly roles: RoleService;
}

/** The existing gateway connections of all organizations. A test adds its own. */
export const connections = new Set(['connection-1', 'connection-2']);
/** The existing devices and commands. */
export const devices = new Set(['device-1', 'device-2', 'device-3']);
export const commands = new Set(['command-1', 'command-2']);
const notIn =
  (things: ReadonlySet<string>) =>
  async (_organizationId: string, ids: readonly string[]): Promise<string[]> =>
    ids.filter((id) => !things.has(id));
const referenceCheckers = {
  gateways: notIn(connections),
  connections: notIn(connections),
  devices: notIn(devices),
  commands: notIn(commands),
};

/** Creates the access module as server/modules/createAccess.ts does. */
export function openAccess(database: Database, clock: TestClock, log: Logger): AccessProcess {
  const uow = new UnitOfWork(database, createAccessRepositories);
  const authentication = new ApiKeyAuthenticator({ uow, clock, log });
  const keyChanged = (keyId: string): void => authentication.invalidation.keyChanged(keyId);
  const users = new UserService({ uow, clock });
  const people = {
    uow,
    clock,
    accessChanged: (organizationId: string): void => authentication.invalidation.accessChanged(organizationId),
  };
  return {
    uow,
    authentication,
    users,
    members: new MemberService(people),
    roles: new RoleService(people),
    organizations: new OrganizationService({ uow, clock }),
    keys: new KeyAdministration({ uow, clock, users, referenceCheckers, keyChanged }),
  };
}

/** A server with the access module only, and the records that its first start created. */
export interface AccessFixture extends AccessProcess {
  readonly db: TestDatabase;
  readonly clock: TestClock;
  readonly edge: TestEdge;
  readonly log: MemoryLog;
  readonly first: Bootstrapped;
  readonly client: AccessControlServiceClient;
  readonly profile: UserProfileServiceClient;
  readonly organizationsClient: OrganizationsServiceClient;
  /** The headers of a call with a key, by default with the first key. */
  as(key?: string): { 'x-api-key': string; 'x-organization-id': string };
  /** Creates a key as the command line does, by default an ordinary key of the first organization. */
  createKey(overrides?: Partial<KeyFromCommandLine>): Promise<{ id: string; key: string }>;
  stop(): Promise<void>;
}

/** Starts such a server on its own database. */
export async function startAccessFixture(engine: TestEngine): Promise<AccessFixture> {
  const db = await engine.createDatabase();
  const clock = new TestClock();
  const log = new MemoryLog();
  const fixture = openAccess(db.database, clock, log);
  const { authentication, uow, users, keys } = fixture;
  const first = (await bootstrap(uow, clock)) as Bootstrapped;
  const cursors = await openCursors(uow);
  const access = new KeyService({
    uow,
    clock,
    cursors,
    referenceCheckers,
    keyChanged: (keyId) => authentication.invalidation.keyChanged(keyId),
  });
  const deletion = new OrganizationDeletion({
    uow,
    clock,
    countHoldings: async () => ({ devices: 3, connections: 2 }),
    onDeleted: (organizationId) => authentication.invalidation.accessChanged(organizationId),
  });
  const services = (server: Services): void => {
    server.addService(AccessControlServiceService, {
      ...keyHandlers(access),
      ...memberHandlers(fixture.members, cursors),
      ...roleHandlers(fixture.roles, cursors),
      ...auditHandlers(
        new AuditQueries({
          database: db.database,
          cursors,
          trail: new AuditLog({ database: db.database, clock, log, retentionDays: 1095 }),
          findMethodPaths: (name) => [name],
        }),
      ),
    });
    server.addService(UserProfileServiceService, userProfileHandlers(users));
    server.addService(OrganizationsServiceService, organizationHandlers(fixture.organizations, deletion, cursors));
  };
  const edge = await startEdge(services, { clock, log, authenticator: authentication });
  const organizationId = first.organization.id;
  return {
    ...fixture,
    db,
    clock,
    edge,
    log,
    first,
    client: edge.client(AccessControlServiceClient),
    profile: edge.client(UserProfileServiceClient),
    organizationsClient: edge.client(OrganizationsServiceClient),
    as: (key = first.key) => ({ 'x-api-key': key, 'x-organization-id': organizationId }),
    createKey: async (overrides = {}) => {
      const issued = await keys.create(organizationId, {
        name: 'Key',
        scopes: ['devices:read'],
        connectionIds: [],
        allConnections: false,
        expiresAt: undefined,
        isAdmin: false,
        ownerUserId: first.user.id,
        ...overrides,
      });
      return { id: issued.apiKey.id, key: issued.key };
    },
    stop: async () => {
      await edge.stop();
      await authentication.usage.close();
      await db.drop();
    },
  };
}
