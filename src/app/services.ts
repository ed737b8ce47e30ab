import type { AuditTrail} from '../access';
import { auditHandlers, AuditQueries, keyHandlers, memberHandlers, MemberService, roleHandlers, RoleService, accessRepositories, KeyService, organizationHandlers, OrganizationService, userProfileHandlers, UserService } from '../access';
import type { Sandbox } from '../codec';
import { commandHandlers, CommandService, EncoderPreviews, sensorsInUse, valueTypeUses } from '../commands';
import type { ConnectionFigure, SecretKey } from '../connections';
import { Arrivals, ChirpStackConnector, connectionFigures, connectionHandlers, ConnectionOpener, ConnectionRepository, ConnectionSecrets, ConnectionService, ConnectionStatuses, ConnectionTrials, ConnectionWatch, connectorHandlers, ConnectorHub, GatewayConnector, gatewayDefinition, gatewayHandlers, MqttConnector, SecretBox } from '../connections';
import { UnitOfWork, type Database, type Db } from '../database';
import { DeviceService, digitalDeviceHandlers, SensorService } from '../devices';
import { executionHandlers, Executions } from '../executions';
import { ActuatorCommandServiceService } from '../gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceService } from '../gen/connection/connection_service';
import { ConnectorServiceService } from '../gen/connector/connector_service';
import { DigitalDeviceServiceService } from '../gen/digitaldevice/v2/digital_device_service';
import { AccessControlServiceService } from '../gen/organization_access_control/access_control_service';
import { MediaServiceService } from '../gen/media/v1/media_service';
import { OrganizationsServiceService } from '../gen/organizations_service';
import { SensorTemplateServiceService } from '../gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceService } from '../gen/sensorquery/v1/sensor_query_service';
import { UserProfileServiceService } from '../gen/userprofile/user_profile_service';
import type { Clock } from '../kernel/clock';
import type { Cursors } from '../kernel/pages';
import type { MediaLinks, MediaService } from '../media';
import { mediaHandlers } from '../media';
import { OrganizationRemoval, removalSteps } from '../operations';
import { DeviceProfiles, profileHandlers } from '../profiles';
import type { Traces } from '../operations/traces/traces';
import type { Services } from '../rpc/services';
import { NormalizedKeyService, sensorTemplateHandlers, sensorTemplateRepositories, SensorTemplateService } from '../sensorTemplates';
import { connectorKeyHandlers, ConnectorKeyService, discoveredDeviceHandlers, DiscoveredDeviceService, ReadingPositions, ReadingUpkeep, SensorQueries, sensorQueryHandlers, SeriesNumbers, UplinkDecoder, UplinkPipeline } from '../telemetry';
import { deletionOf, missingThings, pathsNamed, type Outside } from './core';

/** What every room is built from. */
export interface House extends Outside {
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
  /** The time by which what is kept for a time is removed. */
  readonly forgetting: Clock;
  /** Where traces are on. */
  readonly traces: Traces | undefined;
}

/** What runs while the server serves. */
export interface Served {
  readonly executions: Executions;
  readonly uplinks: UplinkPipeline;
  readonly upkeep: ReadingUpkeep;
  readonly hub: ConnectorHub;
  readonly opener: ConnectionOpener;
  readonly removal: OrganizationRemoval;
  /** How each connection that is switched on is doing. */
  readonly connectionFigures: () => Promise<readonly ConnectionFigure[]>;
  /** Uplinks that were not decoded, by the code of why. */
  readonly undecoded: UplinkDecoder['failureCounts'];
}

/** Every room with its hooks into the rooms above it, and the services that it answers. */
export function addServices(server: Services, house: House): Served {
  const { database, clock } = house;
  const uow = new UnitOfWork(database, accessRepositories);
  const access = new KeyService({ ...house, uow, missing: missingThings(database) });
  const { hub, gateway, statuses, secrets, opener } = links(house);
  const executions = new Executions({ ...house, hub: house.traces?.hub(hub) ?? hub, onStep: house.traces && ((step) => house.traces?.step(step)) });
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
  return { executions, uplinks, upkeep, hub, opener, removal, connectionFigures: async () => await connectionFigures(database, statuses), undecoded: decoder.failureCounts };
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
