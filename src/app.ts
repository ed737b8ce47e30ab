import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { AuditArchive, auditHandlers, AuditQueries, AuditTrail, CommandLineAudit, keyHandlers, memberHandlers, MemberService, roleHandlers, RoleService, accessRepositories, KeyService, Authentication, bootstrap, KeyAdministration, openCursors, openInstallationId, openLinkSecret, OrganizationDeletion, organizationHandlers, OrganizationService, userProfileHandlers, UserService, type Bootstrapped, type MissingThings } from './access';
import { Sandbox } from './codec';
import { commandHandlers, CommandService, EncoderPreviews, missingCommands, sensorsInUse, valueTypeUses } from './commands';
import { findHostPort, hostPortText, isLoopback, type Config } from './config';
import {
  Arrivals,
  ChirpStackConnector,
  compileSchemas,
  connectionHandlers,
  ConnectionOpener,
  ConnectionRepository,
  ConnectionSecrets,
  ConnectionService,
  ConnectionStarter,
  ConnectionStatuses,
  ConnectionTrials,
  ConnectionWatch,
  connectorHandlers,
  ConnectorHub,
  GatewayConnector,
  gatewayDefinition,
  gatewayHandlers,
  missingConnections,
  missingGateways,
  MqttConnector,
  SecretBox,
  SecretKey,
} from './connections';
import { lockDataFolder, openDatabase, UnitOfWork, watchDataFolder, type Database, type Db } from './database';
import { DeviceCounterRepository, DeviceService, digitalDeviceHandlers, missingDevices, ProfileUseRepository, SensorService } from './devices';
import { executionHandlers, Executions } from './executions';
import { ActuatorCommandServiceService } from './gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceService } from './gen/connection/connection_service';
import { ConnectorServiceService } from './gen/connector/connector_service';
import { DigitalDeviceServiceService } from './gen/digitaldevice/v2/digital_device_service';
import { AccessControlServiceService } from './gen/organization_access_control/access_control_service';
import { MediaServiceService } from './gen/media/v1/media_service';
import { OrganizationsServiceService } from './gen/organizations_service';
import { SensorTemplateServiceService } from './gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceService } from './gen/sensorquery/v1/sensor_query_service';
import { UserProfileServiceService } from './gen/userprofile/user_profile_service';
import { asset } from './kernel/assets';
import { steadyClock, type Clock } from './kernel/clock';
import { DomainError } from './kernel/errors';
import type { Logger } from './kernel/logger';
import { Cursors } from './kernel/pages';
import { linkedMedia, mediaHandlers, MediaLinks, MediaService } from './media';
import { OrganizationRemoval, ReachGate, reachQueries, removalSteps } from './operations';
import { DeviceProfiles, profileHandlers, ProfileImports, ProfileRemoval } from './profiles';
import { Descriptors } from './rpc/descriptors';
import { GrpcServer } from './rpc/grpc/server';
import { RestServer } from './rpc/rest/server';
import { Services } from './rpc/services';
import { ServerTls } from './rpc/tls/serverTls';
import { NormalizedKeyService, seedSystemRecords, sensorTemplateHandlers, sensorTemplateRepositories, SensorTemplateService } from './sensorTemplates';
import { connectorKeyHandlers, ConnectorKeyService, discoveredDeviceHandlers, DiscoveredDeviceService, ReadingPositions, ReadingUpkeep, SensorQueries, sensorQueryHandlers, SeriesNumbers, UplinkDecoder, UplinkPipeline } from './telemetry';

/** What the application takes from outside. */
export interface Outside {
  readonly log: Logger;
  readonly clock: Clock;
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

/** A server that serves. */
export interface App extends Pick<Core, 'organizations' | 'deletion' | 'users' | 'members' | 'roles' | 'keys'> {
  /** `host:port` as each port listens; `http` is undefined when it is switched off. */
  readonly addresses: { readonly grpc: string; readonly http: string | undefined };
  /** The file of the CA that clients have to trust; undefined unless the server made it itself. */
  readonly ca: string | undefined;
  /** What the first start on an empty database made; undefined on any other. */
  readonly bootstrapped: Bootstrapped | undefined;
  /** The organization, if there is just one. */
  readonly onlyOrganizationId: string | undefined;
  /** Resolves if the database cannot be kept from other servers any more: why. Then stop. */
  readonly databaseLost: Promise<DomainError>;
  /** Stops in peace, within the limit of the configuration. */
  stop(): Promise<void>;
}

type Closing = (() => void | Promise<void>)[];

const EVERY_HOUR = 3_600_000;

/** Opens the database without serving. Throws `schema_not_current` where the schema is older than the program's. */
export async function openCore(config: Config, outside: Outside): Promise<Core> {
  const database = await open(config, outside);
  try {
    const { pending, schema } = await database.describe();
    if (pending.length > 0) throw schemaNotCurrent(schema);
  } catch (error) {
    await database.close();
    throw error;
  }
  return { database, ...administration(database, outside, () => {}, () => {}), audit: new CommandLineAudit({ database, ...outside }), archive: new AuditArchive(database), profiles: profilesOf(database, outside), methodsNamed: (name) => pathsNamed(new Descriptors(asset('image.binpb')).methods, name), close: async () => await database.close() };
}

/**
 * Starts the server: takes the data folder, brings the schema up to date, then serves. Throws a DomainError that says what to mend.
 * `onDataFolderLost`: the folder was moved or deleted, so what is still acknowledged is lost.
 */
export async function startApp(config: Config, { log, clock }: Outside, onDataFolderLost?: () => void): Promise<App> {
  const outside = { log, clock: steadyClock(clock) };
  const closing: Closing = [];
  const stop = async (): Promise<void> => await closeAll(closing.splice(0), log);
  try {
    const lock = await lockDataFolder(config.data.dir, clock);
    closing.push(() => lock.release());
    const database = await open(config, outside);
    closing.push(async () => await database.close());
    if (onDataFolderLost) closing.push(watchDataFolder(config.data.dir, config.database.url === '' ? ['plantroom.db'] : [], onDataFolderLost));
    const { promise: databaseLost, resolve: onLost } = Promise.withResolvers<DomainError>();
    await database.own(onLost);
    await database.migrate();
    await new UnitOfWork(database, accessRepositories).repos.organizations.removeEmptied();
    await seedSystemRecords(new UnitOfWork(database, sensorTemplateRepositories), outside.clock);
    const { trail, ...served } = await serve(config, database, outside, closing);
    // Last, when nothing can keep the server from starting: a key that is made is also shown, this once.
    const bootstrapped = await bootstrap(new UnitOfWork(database, accessRepositories), outside.clock);
    if (bootstrapped) trail.did(bootstrapped.organization.id, 'bootstrap', `api-keys/${bootstrapped.apiKey.id}`);
    const [first, ...others] = await served.organizations.list();
    return { ...served, bootstrapped, onlyOrganizationId: others.length === 0 ? first?.id : undefined, databaseLost, stop };
  } catch (error) {
    await stop().catch((failure: unknown) => log.error({ err: failure }, 'server.close_failed')); // why it did not start matters more
    throw error;
  }
}

/** Closes what was opened, the last first, whatever fails on the way. Throws the first failure at the end; the others are logged. */
export async function closeAll(closing: Readonly<Closing>, log: Logger): Promise<void> {
  const failures: unknown[] = [];
  for (const action of closing.toReversed()) {
    try {
      await action();
    } catch (error) {
      failures.push(error);
    }
  }
  for (const failure of failures.slice(1)) log.error({ err: failure }, 'server.close_failed');
  if (failures.length > 0) throw failures[0];
}

async function open(config: Config, outside: Outside): Promise<Database> {
  return await openDatabase({ url: config.database.url, poolSize: config.database.pool, dataDir: config.data.dir, ...outside });
}

/** Builds the rooms and opens the port. What has to be closed again goes to `closing`, in the order in which it was opened. */
async function serve(config: Config, database: Database, outside: Outside, closing: Closing): Promise<Omit<App, 'bootstrapped' | 'onlyOrganizationId' | 'databaseLost' | 'stop'> & { readonly trail: AuditTrail }> {
  const uow = new UnitOfWork(database, accessRepositories);
  const authentication = new Authentication({ uow, rates: config.rates, ...outside });
  closing.push(async () => await authentication.close());
  const tls = new ServerTls({ ...config.tls, dataDir: config.data.dir, ...outside });
  await tls.start();
  closing.push(() => tls.stop());

  const trail = new AuditTrail({ database, ...config.audit, ...outside });
  await trail.start();
  closing.push(async () => await trail.close());

  compileSchemas();
  const gate = new ReachGate(reachQueries(database, { media: async (...asked) => await media.outside(...asked), executions: async (...asked) => await executions.service.executionsOutside(...asked) }));
  const services = new Services({ authenticator: authentication, reflection: config.grpc.reflection, auditor: trail, gate, ...outside });
  authentication.onKeyChanged((keyId) => services.keyChanged(keyId));
  authentication.onAccessChanged((organizationId) => services.accessChanged(organizationId));
  const keyChanged = (keyId: string): void => authentication.keyChanged(keyId);
  const accessChanged = (organizationId: string): void => authentication.accessChanged(organizationId);
  const encoder = new Sandbox({ ...config.codec, log: outside.log });
  closing.push(async () => await encoder.stop());
  const secretKey = new SecretKey({ ...config.secrets, dataDir: config.data.dir, log: outside.log });
  const media = new MediaService({ database, dataDir: config.data.dir, installationId: await openInstallationId(uow), ...outside });
  await media.start();
  closing.push(async () => await media.stop());
  let publicUrl = config.http.publicUrl; // else known once the port is open
  const mediaLinks = new MediaLinks(await openLinkSecret(uow), () => publicUrl, outside.clock);
  const { executions, uplinks, upkeep, hub, opener, removal } = addServices(services, { database, cursors: await openCursors(uow), keyChanged, accessChanged, encoder, secretKey, media, mediaLinks, trail, ...outside });
  await uplinks.start();
  await executions.start();
  closing.push(async () => await executions.stop());
  const starter = new ConnectionStarter({ database, hub, opener, log: outside.log });
  closing.push(async () => await hub.stop(), async () => await starter.stop());
  starter.start();
  upkeep.start();
  closing.push(async () => await upkeep.stop());
  removal.start();
  closing.push(async () => await removal.stop());
  const sweeping = setInterval(() => void forgetOld(executions, uplinks, media, outside), EVERY_HOUR).unref();
  closing.push(() => clearInterval(sweeping));

  const grpcServer = new GrpcServer({ services, tls, limits: config.limits });
  const restServer = config.http.listen === 'off' ? undefined : new RestServer({ services, tls, links: [linkedMedia(media, mediaLinks)], ...config.http, limits: config.limits });
  closing.push(async () => await services.stop(config.limits.stopMs, restServer ? [grpcServer, restServer] : [grpcServer]));
  closing.push(() => uplinks.stop()); // before those that wait for what came to be stored
  const grpc = await grpcServer.start(config.grpc.listen);
  const http = await restServer?.start(config.http.listen);
  if (http) publicUrl ||= defaultPublicUrl(http.address, tls.isOn);
  const people = administration(database, outside, keyChanged, accessChanged);
  return { ...people, trail, addresses: { grpc: grpc.address, http: http?.address }, ca: tls.caFile };
}

interface House extends Outside {
  readonly database: Database;
  readonly cursors: Cursors;
  readonly keyChanged: (keyId: string) => void;
  /** Members, roles or organizations were changed, and that is on disk. */
  readonly accessChanged: (organizationId: string) => void;
  readonly encoder: Sandbox;
  readonly secretKey: SecretKey;
  readonly media: MediaService;
  readonly mediaLinks: MediaLinks;
  readonly trail: AuditTrail;
}

/** What runs while the server serves. */
interface Served {
  readonly executions: Executions;
  readonly uplinks: UplinkPipeline;
  readonly upkeep: ReadingUpkeep;
  readonly hub: ConnectorHub;
  readonly opener: ConnectionOpener;
  readonly removal: OrganizationRemoval;
}

/** Every room with its hooks into the rooms above it, and the services that it answers. */
function addServices(server: Services, house: House): Served {
  const { database, clock } = house;
  const uow = new UnitOfWork(database, accessRepositories);
  const access = new KeyService({ ...house, uow, missing: missingThings(database) });
  const { hub, gateway, statuses, secrets, opener } = links(house);
  const executions = new Executions({ ...house, hub });
  const commands = new CommandService(house);
  const hooks = { sensorsInUse, onBindingChanged: endsExecutions(executions, 'physical_device_changed'), onDeviceDeleted: endsExecutions(executions, 'device_deleted') };
  const sensors = new SensorService({ ...house, hooks });
  const devices = new DeviceService({ ...house, hooks });
  const onDeleted = (connectionId: string): void => executions.connectionDeleted(connectionId);
  const connections = new ConnectionService({ ...house, hub, statuses, secrets, onDeleted, deviceCounts: async (organizationId, ids) => await devices.countByConnection(organizationId, ids) });
  const templateWork = new UnitOfWork(database, sensorTemplateRepositories);
  const normalizedKeys = new NormalizedKeyService({ ...house, uow: templateWork });
  const templates = new SensorTemplateService({ ...house, uow: templateWork, valueTypeUses, sensorUses: async (organizationId, id) => await sensors.countByTemplate(organizationId, id) });
  const positions = new ReadingPositions(clock);
  const series = new SeriesNumbers();
  const decoder = new UplinkDecoder({ ...house, sandbox: house.encoder });
  const uplinks = new UplinkPipeline({ ...house, decoder, positions, series, judge: async (db, uplink) => await executions.judge(db, uplink) });

  server.add(AccessControlServiceService, { ...keyHandlers(access), ...memberHandlers(new MemberService({ ...house, uow }), house.cursors), ...roleHandlers(new RoleService({ ...house, uow }), house.cursors), ...auditHandlers(new AuditQueries({ ...house, methodsNamed: (name) => pathsNamed(server.methods, name) })) });
  const upkeep = new ReadingUpkeep({ ...house, positions, series });
  const closeLinks = async (organizationId: string): Promise<void> => await connections.closeAll(organizationId);
  const removal = new OrganizationRemoval({ ...house, closeLinks, onRemoved: async (id, db) => await house.trail.didIn(db, id, 'organization removal', `organizations/${id}`), steps: removalSteps({ devices, connections, media: house.media, readings: upkeep }) });
  const deletion = deletionOf(house, (organizationId) => {
    house.accessChanged(organizationId);
    removal.look();
  });
  server.add(OrganizationsServiceService, organizationHandlers(new OrganizationService({ uow, clock }), deletion, house.cursors));
  server.add(UserProfileServiceService, userProfileHandlers(new UserService({ uow, clock })));
  server.add(SensorTemplateServiceService, sensorTemplateHandlers(templates, normalizedKeys, house.cursors));
  server.add(ConnectorServiceService, connectorHandlers(house.cursors));
  const connectionRooms = { connections, trials: new ConnectionTrials({ database, hub, secrets }), watch: new ConnectionWatch({ database, statuses, clock }) };
  server.add(ConnectionServiceService, { ...connectionHandlers(connectionRooms), ...discoveredDeviceHandlers(new DiscoveredDeviceService(house)) });
  server.add(DigitalDeviceServiceService, { ...digitalDeviceHandlers(devices, sensors, house.mediaLinks), ...connectorKeyHandlers(new ConnectorKeyService(database)), ...profileHandlers(new DeviceProfiles(house)) });
  server.add(ActuatorCommandServiceService, { ...commandHandlers(commands, new EncoderPreviews(house)), ...executionHandlers(executions) });
  server.add(SensorQueryServiceService, sensorQueryHandlers(new SensorQueries({ ...house, positions })));
  server.add(MediaServiceService, mediaHandlers(house.media, house.mediaLinks));
  server.add(gatewayDefinition, gatewayHandlers(gateway));
  hub.start({
    uplink: async (message) => await uplinks.handle(message),
    evidence: async (...found) => await executions.evidence(...found),
    deviceEvidence: async (...found) => await executions.deviceEvidence(...found),
    attached: async (attachment) => await executions.attached(attachment),
    detached: async (organizationId, connectionId) => await executions.detached(organizationId, connectionId),
    ready: (organizationId, connectionId) => executions.ready(organizationId, connectionId),
  });
  return { executions, uplinks, upkeep, hub, opener, removal };
}

/** The ways to devices, and what they share. */
function links({ database, secretKey, clock, log }: House) {
  const statuses = new ConnectionStatuses(clock);
  const shared = { statuses, arrivals: new Arrivals(clock), clock, log };
  const secrets = new ConnectionSecrets(new SecretBox(secretKey));
  const opener = new ConnectionOpener({ secrets, statuses, log });
  const gateway = new GatewayConnector({ ...shared, connections: new ConnectionRepository(database.db) });
  const hub = new ConnectorHub([gateway, new MqttConnector(shared), new ChirpStackConnector(shared)], (connection) => opener.open(connection));
  return { hub, gateway, statuses, secrets, opener };
}

function endsExecutions(executions: Executions, reason: 'device_deleted' | 'physical_device_changed') {
  return async (db: Db, organizationId: string, deviceId: string): Promise<void> => await executions.targetRemoved(db, organizationId, deviceId, reason);
}

async function forgetOld(executions: Executions, uplinks: UplinkPipeline, media: MediaService, { log, clock }: Outside): Promise<void> {
  try {
    await uplinks.sweep(clock.now());
  } catch (error) {
    log.warn({ err: error }, 'telemetry.sweep_failed'); // the next hour tries again
  }
  try {
    await executions.forgetOld(clock.now());
  } catch (error) {
    log.warn({ err: error }, 'executions.retention_failed');
  }
  try {
    await media.sweep(clock.now());
  } catch (error) {
    log.warn({ err: error }, 'media.sweep_failed');
  }
}

function administration(database: Database, { clock }: Outside, keyChanged: (keyId: string) => void, accessChanged: (organizationId: string) => void): Pick<Core, 'organizations' | 'deletion' | 'users' | 'members' | 'roles' | 'keys'> {
  const uow = new UnitOfWork(database, accessRepositories);
  const users = new UserService({ uow, clock });
  const keys = new KeyAdministration({ uow, clock, users, missing: missingThings(database), keyChanged });
  const people = { members: new MemberService({ uow, clock, accessChanged }), roles: new RoleService({ uow, clock, accessChanged }) };
  return { organizations: new OrganizationService({ uow, clock }), deletion: deletionOf({ database, clock }, accessChanged), users, ...people, keys };
}

function deletionOf({ database, clock }: Pick<House, 'database' | 'clock'>, onDeleted: (organizationId: string) => void): OrganizationDeletion {
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
function missingThings(database: Database): MissingThings {
  return { gateways: missingGateways(database), connections: missingConnections(database), devices: missingDevices(database), commands: missingCommands(database) };
}

function pathsNamed(methods: ReadonlyMap<string, unknown>, name: string): readonly string[] {
  const paths = [...methods.keys()].filter((path) => path.endsWith(`/${name}`));
  return paths.length > 0 ? paths : [name];
}

/** How browsers reach this server where nobody said it. */
function defaultPublicUrl(listens: string, tls: boolean): string {
  const { host, port } = findHostPort(listens) ?? { host: 'localhost', port: 0 };
  const everywhere = host === '0.0.0.0' || host === '::';
  return `http${tls ? 's' : ''}://${hostPortText({ host: everywhere ? hostname() : isLoopback(host) ? 'localhost' : host, port })}`;
}

function schemaNotCurrent(schema: string): DomainError {
  const what = schema === '' ? 'the database is empty' : `the schema of the database is older (${schema}) than the program`;
  return new DomainError('conflict', 'schema_not_current', `${what}; run \`plantroom migrate\`, or start the server once, which does it too`);
}
