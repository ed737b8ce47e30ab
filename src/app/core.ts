import { randomBytes } from 'node:crypto';
import { AuditArchive, CommandLineAudit, MemberService, RoleService, accessRepositories, KeyAdministration, OrganizationDeletion, OrganizationService, UserService, type MissingThings } from '../access';
import { missingCommands } from '../commands';
import type { Config } from '../config';
import { ConnectionRepository, missingConnections, missingGateways } from '../connections';
import { openDatabase, UnitOfWork, type Database } from '../database';
import { DeviceCounterRepository, missingDevices, ProfileUseRepository } from '../devices';
import { asset } from '../kernel/assets';
import type { Clock } from '../kernel/clock';
import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { Cursors } from '../kernel/pages';
import { DeviceProfiles, ProfileImports, ProfileRemoval } from '../profiles';
import { Descriptors } from '../rpc/descriptors';

/** What the application takes from outside. */
export interface Outside {
  readonly log: Logger;
  readonly clock: Clock;
  /** The plantroom.yaml that was named to the server; undefined: none. */
  readonly configFile?: string | undefined;
}

/** The database, and the services of the commands that work on it beside a running server. */
export interface Core {
  readonly database: Database;
  readonly organizations: OrganizationService;
  readonly deletion: OrganizationDeletion;
  readonly users: UserService;
  readonly members: MemberService;
  readonly roles: RoleService;
  readonly keys: KeyAdministration;
  /** Everything that a command changes is done inside of `core.audit.change('keys revoke', { organizationId, resource }, work)`, so that it is in the audit trail. */
  readonly audit: CommandLineAudit;
  readonly archive: AuditArchive;
  readonly profiles: ProfileAdministration;
  /** The gRPC paths of the methods of a name; of anything else just that. */
  readonly methodsNamed: (name: string) => readonly string[];
  close(): Promise<void>;
}

/** The device profiles of the installation. */
export interface ProfileAdministration {
  readonly catalogue: DeviceProfiles;
  readonly imports: ProfileImports;
  readonly removal: ProfileRemoval;
  /** How many physical devices use each of these profiles; those that none uses are left out. */
  readonly uses: (profileIds: readonly string[]) => Promise<ReadonlyMap<string, number>>;
}

/** Opens the database without serving. Throws `schema_not_current` where the schema is older than the program's. */
export async function openCore(config: Config, outside: Outside): Promise<Core> {
  const database = await openConfigured(config, outside);
  try {
    const { pending, schema } = await database.describe();
    if (pending.length > 0) throw schemaNotCurrent(schema);
  } catch (error) {
    await database.close();
    throw error;
  }
  return { database, ...administration(database, outside, () => {}, () => {}), audit: new CommandLineAudit({ database, ...outside }), archive: new AuditArchive(database), profiles: profilesOf(database, outside), methodsNamed: (name) => pathsNamed(new Descriptors(asset('image.binpb')).methods, name), close: async () => await database.close() };
}

/** Opens the database of the configuration, whatever its schema. */
export async function openConfigured(config: Config, outside: Outside): Promise<Database> {
  return await openDatabase({ url: config.database.url, poolSize: config.database.pool, dataDir: config.data.dir, ...outside });
}

/** The services that both a server and the commands beside it work with. */
export function administration(database: Database, { clock }: Outside, keyChanged: (keyId: string) => void, accessChanged: (organizationId: string) => void): Pick<Core, 'organizations' | 'deletion' | 'users' | 'members' | 'roles' | 'keys'> {
  const uow = new UnitOfWork(database, accessRepositories);
  const users = new UserService({ uow, clock });
  const keys = new KeyAdministration({ uow, clock, users, missing: missingThings(database), keyChanged });
  const people = { members: new MemberService({ uow, clock, accessChanged }), roles: new RoleService({ uow, clock, accessChanged }) };
  return { organizations: new OrganizationService({ uow, clock }), deletion: deletionOf({ database, clock }, accessChanged), users, ...people, keys };
}

/** How organizations are deleted, with what hangs on them. */
export function deletionOf({ database, clock }: { readonly database: Database; readonly clock: Clock }, onDeleted: (organizationId: string) => void): OrganizationDeletion {
  const [devices, connections] = [new DeviceCounterRepository(database.db), new ConnectionRepository(database.db)];
  const holdings = async (organizationId: string) => ({ devices: await devices.total(organizationId), connections: await connections.count(organizationId) });
  return new OrganizationDeletion({ uow: new UnitOfWork(database, accessRepositories), clock, holdings, onDeleted });
}

function profilesOf(database: Database, { clock }: Outside): ProfileAdministration {
  const uses = async (profileIds: readonly string[]) => await new ProfileUseRepository(database.db).count(profileIds);
  const cursors = new Cursors(randomBytes(32)); // for the pages of one command
  return { catalogue: new DeviceProfiles({ database, cursors }), imports: new ProfileImports({ database, clock }), removal: new ProfileRemoval({ database, uses }), uses };
}

/** What keys name and the rooms above them keep. */
export function missingThings(database: Database): MissingThings {
  return { gateways: missingGateways(database), connections: missingConnections(database), devices: missingDevices(database), commands: missingCommands(database) };
}

/** The gRPC paths of the methods of a name; of anything else just that. */
export function pathsNamed(methods: ReadonlyMap<string, unknown>, name: string): readonly string[] {
  const paths = [...methods.keys()].filter((path) => path.endsWith(`/${name}`));
  return paths.length > 0 ? paths : [name];
}

function schemaNotCurrent(schema: string): DomainError {
  const what = schema === '' ? 'the database is empty' : `the schema of the database is older (${schema}) than the program`;
  return new DomainError('conflict', 'schema_not_current', `${what}; run \`plantroom migrate\`, or start the server once, which does it too`);
}
