import { auditHandlers, AuditQueries, AuditTrail, keyHandlers, memberHandlers, MemberService, roleHandlers, RoleService, accessRepositories, KeyService, Authentication, bootstrap, KeyAdministration, openCursors, OrganizationDeletion, organizationHandlers, OrganizationService, userProfileHandlers, UserService, type AccessRepositories, type Bootstrapped, type KeyFromCommandLine } from '../../src/access';
import { UnitOfWork, type Database } from '../../src/database';
import { AccessControlServiceClient, AccessControlServiceService } from '../../src/gen/organization_access_control/access_control_service';
import { OrganizationsServiceClient, OrganizationsServiceService } from '../../src/gen/organizations_service';
import { UserProfileServiceClient, UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import type { Logger } from '../../src/kernel/logger';
import type { Services } from '../../src/rpc/services';
import { MemoryLog, startEdge, type TestEdge } from '../support/edge';
import type { TestDatabase, TestEngine } from '../support/engines';
import { TestClock } from '../support/testClock';

/** What a process has of this room. */
export interface AccessProcess {
  readonly uow: UnitOfWork<AccessRepositories>;
  readonly authentication: Authentication;
  readonly users: UserService;
  readonly organizations: OrganizationService;
  readonly keys: KeyAdministration;
  readonly members: MemberService;
  readonly roles: RoleService;
}

/** The gateway connections that there are, in whichever organization; a test adds its own. */
export const connections = new Set(['connection-1', 'connection-2']);
/** The devices and commands that there are. */
export const devices = new Set(['device-1', 'device-2', 'device-3']);
export const commands = new Set(['command-1', 'command-2']);
const notIn = (things: ReadonlySet<string>) => async (_organizationId: string, ids: readonly string[]): Promise<string[]> => ids.filter((id) => !things.has(id));
const missing = { gateways: notIn(connections), connections: notIn(connections), devices: notIn(devices), commands: notIn(commands) };

/** Builds the room as app.ts does. */
export function openAccess(database: Database, clock: TestClock, log: Logger): AccessProcess {
  const uow = new UnitOfWork(database, accessRepositories);
  const authentication = new Authentication({ uow, clock, log });
  const keyChanged = (keyId: string): void => authentication.keyChanged(keyId);
  const users = new UserService({ uow, clock });
  const people = { uow, clock, accessChanged: (organizationId: string): void => authentication.accessChanged(organizationId) };
  return { uow, authentication, users, members: new MemberService(people), roles: new RoleService(people), organizations: new OrganizationService({ uow, clock }), keys: new KeyAdministration({ uow, clock, users, missing, keyChanged }) };
}

/** A server of this room alone, with what its first start made. */
export interface AccessRoom extends AccessProcess {
  readonly db: TestDatabase;
  readonly clock: TestClock;
  readonly edge: TestEdge;
  readonly log: MemoryLog;
  readonly first: Bootstrapped;
  readonly client: AccessControlServiceClient;
  readonly profile: UserProfileServiceClient;
  readonly organizationsClient: OrganizationsServiceClient;
  /** The headers of a call with a key, by default with the first one. */
  as(key?: string): { 'x-api-key': string; 'x-organization-id': string };
  /** Makes a key as the command line does; by default an ordinary one of the first organization. */
  key(overrides?: Partial<KeyFromCommandLine>): Promise<{ id: string; key: string }>;
  stop(): Promise<void>;
}

/** Starts such a server on a database of its own. */
export async function startAccessRoom(engine: TestEngine): Promise<AccessRoom> {
  const db = await engine.createDatabase();
  const clock = new TestClock();
  const log = new MemoryLog();
  const room = openAccess(db.database, clock, log);
  const { authentication, uow, users, keys } = room;
  const first = (await bootstrap(uow, clock)) as Bootstrapped;
  const cursors = await openCursors(uow);
  const access = new KeyService({ uow, clock, cursors, missing, keyChanged: (keyId) => authentication.keyChanged(keyId) });
  const deletion = new OrganizationDeletion({ uow, clock, holdings: async () => ({ devices: 3, connections: 2 }), onDeleted: (organizationId) => authentication.accessChanged(organizationId) });
  const services = (server: Services): void => {
    server.add(AccessControlServiceService, { ...keyHandlers(access), ...memberHandlers(room.members, cursors), ...roleHandlers(room.roles, cursors), ...auditHandlers(new AuditQueries({ database: db.database, cursors, trail: new AuditTrail({ database: db.database, clock, log, retentionDays: 1095 }), methodsNamed: (name) => [name] })) });
    server.add(UserProfileServiceService, userProfileHandlers(users));
    server.add(OrganizationsServiceService, organizationHandlers(room.organizations, deletion, cursors));
  };
  const edge = await startEdge(services, { clock, log, authenticator: authentication });
  const organizationId = first.organization.id;
  return {
    ...room,
    db,
    clock,
    edge,
    log,
    first,
    client: edge.client(AccessControlServiceClient),
    profile: edge.client(UserProfileServiceClient),
    organizationsClient: edge.client(OrganizationsServiceClient),
    as: (key = first.key) => ({ 'x-api-key': key, 'x-organization-id': organizationId }),
    key: async (overrides = {}) => {
      const issued = await keys.create(organizationId, { name: 'Key', scopes: ['devices:read'], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: first.user.id, ...overrides });
      return { id: issued.apiKey.id, key: issued.key };
    },
    stop: async () => {
      await edge.stop();
      await authentication.close();
      await db.drop();
    },
  };
}
