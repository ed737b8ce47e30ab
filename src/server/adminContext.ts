import { randomBytes } from 'node:crypto';
import {
  AuditArchive,
  CommandLineAudit,
  MemberService,
  RoleService,
  createAccessRepositories,
  KeyAdministration,
  type OrganizationDeletion,
  OrganizationService,
  UserService,
} from '../access';
import type { Config } from '../config';
import { UnitOfWork, type Database } from '../database';
import { ProfileUseRepository } from '../devices';
import type { Clock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import { Cursors } from '../kernel/pages';
import { DeviceProfiles, ProfileImports, ProfileRemoval } from '../profiles';
import { getApiDescriptors } from '../api/descriptors/descriptors';
import type { ExternalDependencies } from './externalDependencies';
import type { Authentication } from './modules/createAuthentication';
import { openConfiguredDatabase } from './openConfiguredDatabase';
import { createOrganizationDeletion } from './organizationDeletion';
import { createReferenceCheckers } from './references';

/** The services that manage organizations, users and keys, for the server and the commands. */
export interface AdminServices {
  readonly organizations: OrganizationService;
  readonly deletion: OrganizationDeletion;
  readonly users: UserService;
  readonly members: MemberService;
  readonly roles: RoleService;
  readonly keys: KeyAdministration;
}

/** The database, and the services that commands use with or without a running server. */
export interface AdminContext extends AdminServices {
  readonly database: Database;
  /**
   * The audit trail of the command line. Wrap each change in `audit.recordChange('keys revoke', { organizationId,
   * resource }, work)`, so that it is recorded.
   */
  readonly audit: CommandLineAudit;
  readonly archive: AuditArchive;
  readonly profiles: ProfileAdministration;
  /** Returns the gRPC paths of all methods with this name, or the name itself if there are none. */
  readonly findMethodPaths: (name: string) => readonly string[];
  close(): Promise<void>;
}

/** Manages the device profiles of the installation. */
interface ProfileAdministration {
  readonly catalogue: DeviceProfiles;
  readonly imports: ProfileImports;
  readonly removal: ProfileRemoval;
  /** Counts the physical devices that use each of these profiles; unused profiles are omitted. */
  readonly countUses: (profileIds: readonly string[]) => Promise<ReadonlyMap<string, number>>;
}

/**
 * Opens the database without starting a server. Throws `database_not_found`, and `schema_outdated` if the schema is
 * older than the program's.
 */
export async function openAdminContext(config: Config, external: ExternalDependencies): Promise<AdminContext> {
  const database = await openConfiguredDatabase(config, { ...external, mustExist: true });
  try {
    const { pending, schema } = await database.describe();
    if (pending.length > 0) throw schemaOutdated(schema);
  } catch (error) {
    await database.close();
    throw error;
  }
  return {
    database,
    ...createAdminServices(database, external.clock, { keyChanged: () => {}, accessChanged: () => {} }),
    audit: new CommandLineAudit({ database, ...external }),
    archive: new AuditArchive(database),
    profiles: createProfileAdministration(database, external),
    findMethodPaths: (name) => findMethodPaths(getApiDescriptors().methods, name),
    close: async () => await database.close(),
  };
}

/**
 * Creates the services that the server and the commands share. `keyChanged` and `accessChanged` are called after
 * committed changes.
 */
export function createAdminServices(
  database: Database,
  clock: Clock,
  { keyChanged, accessChanged }: Pick<Authentication, 'keyChanged' | 'accessChanged'>,
): AdminServices {
  const uow = new UnitOfWork(database, createAccessRepositories);
  const users = new UserService({ uow, clock });
  return {
    organizations: new OrganizationService({ uow, clock }),
    deletion: createOrganizationDeletion({ database, clock }, accessChanged),
    users,
    members: new MemberService({ uow, clock, accessChanged }),
    roles: new RoleService({ uow, clock, accessChanged }),
    keys: new KeyAdministration({
      uow,
      clock,
      users,
      referenceCheckers: createReferenceCheckers(database),
      keyChanged,
    }),
  };
}

/** Creates the services for the device profiles. */
function createProfileAdministration(database: Database, { clock }: ExternalDependencies): ProfileAdministration {
  const countUses = async (profileIds: readonly string[]) =>
    await new ProfileUseRepository(database.db).count(profileIds);
  const cursors = new Cursors(randomBytes(32)); // page tokens are valid within one command only
  return {
    catalogue: new DeviceProfiles({ database, cursors }),
    imports: new ProfileImports({ database, clock }),
    removal: new ProfileRemoval({ database, uses: countUses }),
    countUses,
  };
}

/** Returns the gRPC paths of all methods with this name, or the name itself if there are none. */
export function findMethodPaths(methodByPath: ReadonlyMap<string, unknown>, name: string): readonly string[] {
  const paths = [...methodByPath.keys()].filter((path) => path.endsWith(`/${name}`));
  return paths.length > 0 ? paths : [name];
}

function schemaOutdated(schema: string): DomainError {
  const what = schema === '' ? 'the database is empty' : `the database schema (${schema}) is older than the program`;
  return new DomainError(
    'conflict',
    'schema_outdated',
    `${what}: run \`plantroom migrate\`, or start the server, which migrates automatically`,
  );
}
