import { fromBinary, toJson } from '@bufbuild/protobuf';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { descriptors, encode, type Fields, type TestApp } from '../support/testApp';

/** One of each resource that an organization can have. */
export interface Resources {
  readonly device: string;
  readonly sensor: string;
  readonly template: string;
  readonly keyName: string;
  readonly connection: string;
  readonly media: string;
  readonly command: string;
  readonly execution: string;
  readonly apiKey: string;
  readonly member: string;
  readonly role: string;
  readonly organization: string;
  readonly dashboard: string;
  readonly widget: string;
}

/** The services by their paths. */
export const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
export const TEMPLATES = '/sensor_template.v2.SensorTemplateService';
export const MEDIA = '/media.v1.MediaService';
export const COMMANDS = '/actuator_command.v2.ActuatorCommandService';
export const CONNECTIONS = '/connection.ConnectionService';
export const ACCESS = '/organization_access_control.AccessControlService';
export const ORGANIZATIONS = '/OrganizationsService';
export const DASHBOARDS = '/dashboard.v2.DashboardService';
const WIDGETS = '/widget.v2.WidgetService';
const READINGS = '/sensorquery.v1.SensorQueryService';
const span = { from: { seconds: 0n, nanos: 0 }, to: { seconds: 3600n, nanos: 0 } };
const definition = { name: 'Command', mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' };
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const template = { sensorType: 'relay', valueType: 'boolean' };

/**
 * For each method that takes ids: a request that is valid except for the owner of the resources it names. `their`
 * belongs to another organization or does not exist; `own` belongs to the caller.
 */
export const REQUESTS: Readonly<Record<string, (their: Resources, own: Resources) => Fields>> = {
  [`${DEVICES}/CreateDigitalDevice`]: (their) => ({
    name: 'Device',
    physicalDevice: { clientDeviceId: 'somebody', connectionId: their.connection },
  }),
  [`${DEVICES}/GetDigitalDevice`]: (their) => ({ id: their.device }),
  [`${DEVICES}/UpdateDigitalDevice`]: (their) => ({ id: their.device, name: 'Mine now' }),
  [`${DEVICES}/DeleteDigitalDevice`]: (their) => ({ id: their.device }),
  [`${DEVICES}/GetConnectorKeys`]: (their, own) => ({
    id: own.device,
    connectionId: their.connection,
    clientDeviceId: 'client',
  }),
  [`${DEVICES}/AddSensorsToDevice`]: (their, own) => ({ id: own.device, sensorTemplateIds: [their.template] }),
  [`${DEVICES}/RemoveSensorsFromDevice`]: (their, own) => ({ id: own.device, sensorIds: [their.sensor] }),
  [`${DEVICES}/UpdateDeviceSensor`]: (their, own) => ({
    id: own.device,
    sensorId: their.sensor,
    sensorTemplateId: own.template,
  }),
  [`${DEVICES}/SetSensorMappings`]: (their, own) => ({
    id: own.device,
    mappings: [{ sensorId: their.sensor, sourcePath: 'a' }],
  }),
  [`${TEMPLATES}/CreateSensorTemplate`]: (their) => ({ ...template, keyNameId: their.keyName }),
  [`${TEMPLATES}/GetSensorTemplate`]: (their) => ({ id: their.template }),
  [`${TEMPLATES}/GetNormalizedKey`]: (their) => ({ id: their.keyName }),
  [`${TEMPLATES}/UpdateSensorTemplate`]: (their, own) => ({ id: their.template, keyNameId: own.keyName }),
  [`${TEMPLATES}/DeleteSensorTemplate`]: (their) => ({ id: their.template }),
  [`${TEMPLATES}/UpdateNormalizedKey`]: (their) => ({ id: their.keyName, name: 'mine now' }),
  [`${MEDIA}/GetMedia`]: (their) => ({ id: their.media }),
  [`${MEDIA}/DownloadMedia`]: (their) => ({ id: their.media, variant: 2 }),
  [`${MEDIA}/DeleteMedia`]: (their) => ({ id: their.media }),
  [`${CONNECTIONS}/GetConnection`]: (their) => ({ id: their.connection }),
  [`${CONNECTIONS}/ListDiscoveredDevices`]: (their) => ({ id: their.connection }),
  [`${CONNECTIONS}/UpdateConnection`]: (their) => ({ id: their.connection, enabled: false }),
  [`${CONNECTIONS}/TestConnection`]: (their) => ({ id: their.connection }),
  [`${CONNECTIONS}/WatchConnectionStatus`]: (their) => ({ ids: [their.connection] }),
  [`${CONNECTIONS}/DeleteConnection`]: (their) => ({ id: their.connection }),
  [`${ORGANIZATIONS}/GetOrganization`]: (their) => ({ id: their.organization }),
  [`${ORGANIZATIONS}/UpdateOrganization`]: (their) => ({ id: their.organization, readingRetentionDays: 1 }),
  [`${ACCESS}/CreateApiKey`]: (their) => ({
    name: 'Key',
    scopes: ['gateways:write'],
    connectionIds: [their.connection],
  }),
  [`${ACCESS}/GetApiKey`]: (their) => ({ id: their.apiKey }),
  [`${ACCESS}/UpdateApiKey`]: (their) => ({ id: their.apiKey, name: 'Mine now' }),
  [`${ACCESS}/RotateApiKey`]: (their) => ({ id: their.apiKey, graceSeconds: 0 }),
  [`${ACCESS}/RevokeApiKey`]: (their) => ({ id: their.apiKey }),
  [`${ACCESS}/GetMember`]: (their) => ({ userId: their.member }),
  [`${ACCESS}/AddMember`]: (their) => ({ name: 'Somebody', roleId: their.role }),
  [`${ACCESS}/UpdateMember`]: (their, own) => ({ userId: their.member, roleId: own.role }),
  [`${ACCESS}/RemoveMember`]: (their) => ({ userId: their.member }),
  [`${ACCESS}/UpdateRole`]: (their) => ({ id: their.role, name: 'Mine now' }),
  [`${ACCESS}/DeleteRole`]: (their) => ({ id: their.role }),
  [`${COMMANDS}/CreateCommand`]: (their) => ({ id: their.device, command: definition }),
  [`${COMMANDS}/GetCommand`]: (their, own) => ({ id: own.device, commandId: their.command }),
  [`${COMMANDS}/ListCommands`]: (their) => ({ id: their.device }),
  [`${COMMANDS}/UpdateCommand`]: (their, own) => ({ id: own.device, commandId: their.command, command: definition }),
  [`${COMMANDS}/DeleteCommand`]: (their, own) => ({ id: own.device, commandId: their.command }),
  [`${COMMANDS}/PreviewEncoder`]: (their) => ({
    id: their.device,
    customEncoder: 'function encodeDownlink() { return { bytes: [1] }; }',
  }),
  [`${COMMANDS}/ExecuteCommand`]: (their, own) => ({ id: own.device, commandId: their.command }),
  [`${COMMANDS}/ListExecutions`]: (their) => ({ id: their.device }),
  [`${COMMANDS}/GetExecution`]: (their) => ({ executionId: their.execution }),
  [`${COMMANDS}/CancelExecution`]: (their) => ({ executionId: their.execution }),
  [`${COMMANDS}/WatchExecutions`]: (their) => ({ id: their.device }),
  [`${READINGS}/QueryLatest`]: (their, own) => ({ sensorIds: [own.sensor], deviceIds: [their.device] }),
  [`${READINGS}/QueryRange`]: (their, own) => ({ sensorIds: [own.sensor, their.sensor], ...span }),
  [`${READINGS}/QueryAggregate`]: (their, own) => ({
    sensorIds: [own.sensor, their.sensor],
    ...span,
    bucket: { count: 1, unit: 3 },
  }),
  [`${READINGS}/StreamReadings`]: (their) => ({ sensorIds: [their.sensor] }),
  [`${DASHBOARDS}/CreateDashboard`]: (their) => ({ name: 'Shared', editorRoleIds: [their.role] }),
  [`${DASHBOARDS}/GetDashboard`]: (their) => ({ id: their.dashboard }),
  [`${DASHBOARDS}/UpdateDashboard`]: (their) => ({ id: their.dashboard, name: 'Mine now' }),
  [`${DASHBOARDS}/SetDashboardContent`]: (their) => ({ id: their.dashboard, content: {}, etag: '"1"' }),
  [`${DASHBOARDS}/DeleteDashboard`]: (their) => ({ id: their.dashboard }),
  [`${DASHBOARDS}/ExportDashboard`]: (their) => ({ id: their.dashboard }),
  [`${DASHBOARDS}/ImportDashboard`]: (their) => ({
    document: { format: 'plantroom.dashboard', formatVersion: 1, name: 'Copy', content: {}, devices: [{ ref: 'a' }] },
    devices: { a: their.device },
  }),
  [`${DASHBOARDS}/ListDashboardRevisions`]: (their) => ({ id: their.dashboard }),
  [`${DASHBOARDS}/RestoreDashboardRevision`]: (their) => ({ id: their.dashboard, revision: 1 }),
  [`${DASHBOARDS}/WatchDashboards`]: (their) => ({ ids: [their.dashboard] }),
  [`${WIDGETS}/ListWidgets`]: (their) => ({ dashboardId: their.dashboard }),
  [`${WIDGETS}/GetWidget`]: (their, own) => ({ dashboardId: own.dashboard, widgetId: their.widget }),
  [`${WIDGETS}/CreateWidget`]: (their) => ({ dashboardId: their.dashboard, kind: 'clock' }),
  [`${WIDGETS}/UpdateWidget`]: (their, own) => ({ dashboardId: own.dashboard, widgetId: their.widget, title: 'Mine' }),
  [`${WIDGETS}/DeleteWidget`]: (their) => ({ dashboardId: their.dashboard, widgetId: their.widget }),
  '/gateway.v1.GatewayService/Attach': (their) => ({
    message: { case: 'hello', value: { connectionId: their.connection, gatewayId: 'g', bootId: 'b', store: 1 } },
  }),
};

/** Ids that filter a list: an unknown actor has no events. */
export const FILTERS: readonly [string, (their: Resources) => Fields][] = [
  [`${DASHBOARDS}/ListDashboards`, (their) => ({ sensorId: their.sensor })],
  [`${ACCESS}/ListAuditEvents`, (their) => ({ keyId: their.apiKey })],
  [`${ACCESS}/ListAuditEvents`, (their) => ({ userId: their.member })],
  [`${ACCESS}/ListAuditEvents`, (their) => ({ requestId: their.execution })],
];
/** Ids of organizations and users of the complete installation, for admin keys, which see them all. */
export const ADMIN: readonly [string, (their: Resources) => Fields][] = [
  [`${ORGANIZATIONS}/CreateOrganization`, (their) => ({ name: 'Third', ownerUserId: their.member })],
  [`${ORGANIZATIONS}/DeleteOrganization`, (their) => ({ id: their.organization })],
];
/** Ids of which each has an error of its own in the response. */
export const REPORTED: readonly [string, (their: Resources) => Fields][] = [
  ['/widget.v2.WidgetService/QueryWidgetData', (their) => ({ sensorIds: [their.sensor], ...span })],
];
/** The methods for these. */
export const OTHERS = new Set([...FILTERS, ...ADMIN, ...REPORTED].map(([path]) => path));
/** Ids of a catalogue that is the same for every organization. */
export const SHARED = new Set(['/connector.ConnectorService/GetConnector', `${CONNECTIONS}/CreateConnection`]);
/**
 * Other positions of ids. When they are part of a definition, they are reported as violations, like every reference
 * that does not resolve.
 */
export const REFERENCES: readonly [string, (their: Resources, own: Resources) => Fields][] = [
  ...[
    (their: Resources) => ({ kind: 'latest', series: [{ sensorId: their.sensor }] }),
    (their: Resources) => ({ kind: 'latest', series: [{ deviceId: their.device, keyName: 'relay' }] }),
    (their: Resources) => ({ kind: 'executions', options: { deviceId: their.device } }),
  ].flatMap((createWidget): [string, (their: Resources, own: Resources) => Fields][] => [
    [`${DASHBOARDS}/CreateDashboard`, (their) => ({ name: 'Copy', content: { widgets: [createWidget(their)] } })],
    [`${WIDGETS}/CreateWidget`, (their, own) => ({ dashboardId: own.dashboard, ...createWidget(their) })],
  ]),
  [
    `${DASHBOARDS}/SetDashboardContent`,
    (their, own) => ({
      id: own.dashboard,
      content: { variables: [{ name: 'device', kind: 1, value: their.device }] },
      etag: '"2"',
    }),
  ],
  [`${ACCESS}/AddMember`, (their) => ({ userId: their.member, roleId: 'viewer' })],
  [
    `${COMMANDS}/CreateCommand`,
    (their, own) => ({ id: own.device, command: { ...definition, name: 'Query', queryCommandId: their.command } }),
  ],
  [
    `${COMMANDS}/CreateCommand`,
    (their, own) => ({
      id: own.device,
      command: {
        ...definition,
        name: 'Expect',
        verificationStrategy: 2,
        expectedSensorStates: [{ sensorId: their.sensor, valueTemplate: 'true' }],
      },
    }),
  ],
  [`${ACCESS}/CreateApiKey`, (their) => ({ name: 'Key', scopes: ['users:read'], ownerUserId: their.member })],
  ...['deviceIds', 'connectionIds', 'commandIds'].flatMap(
    (name): [string, (their: Resources, own: Resources) => Fields][] => {
      const restrictions = (their: Resources, own: Resources): Fields => {
        const thing = name.slice(0, -3) as 'device' | 'connection' | 'command';
        return { restrictions: { [name]: [own[thing], their[thing]] } };
      };
      return [
        [
          `${ACCESS}/CreateApiKey`,
          (their, own) => ({ name: 'Key', scopes: ['users:read'], ...restrictions(their, own) }),
        ],
        [`${ACCESS}/UpdateApiKey`, (their, own) => ({ id: own.apiKey, ...restrictions(their, own) })],
      ];
    },
  ),
  [`${ACCESS}/UpdateMember`, (their, own) => ({ userId: own.member, roleId: their.role })],
  [
    `${DEVICES}/UpdateDeviceSensor`,
    (their, own) => ({ id: own.device, sensorId: own.sensor, sensorTemplateId: their.template }),
  ],
  [
    `${DEVICES}/UpdateDigitalDevice`,
    (their, own) => ({ id: own.device, physicalDevice: { connectionId: their.connection } }),
  ],
  [
    `${DEVICES}/CreateDigitalDevice`,
    (their, own) => ({ name: 'Device', images: [{ mediaId: own.media }, { mediaId: their.media }] }),
  ],
  [`${DEVICES}/UpdateDigitalDevice`, (their, own) => ({ id: own.device, images: [{ mediaId: their.media }] })],
  [`${READINGS}/QueryLatest`, (their) => ({ sensorIds: [their.sensor] })],
  [`${READINGS}/StreamReadings`, (their, own) => ({ sensorIds: [own.sensor], deviceIds: [their.device] })],
];

/** Ids of resources that do not exist. */
export const nonexistent: Resources = Object.fromEntries(
  [
    'device',
    'sensor',
    'template',
    'keyName',
    'connection',
    'media',
    'command',
    'execution',
    'apiKey',
    'member',
    'role',
    'organization',
    'dashboard',
    'widget',
  ].map((thing, at) => [thing, `0190a0a0-0000-7000-8000-0000000000${10 + at}`]),
) as unknown as Resources;

/** Returns the response of a method as JSON. Throws its error. */
export async function callJson(
  server: TestApp,
  path: string,
  fields: Fields,
  headers: Record<string, string>,
): Promise<Record<string, unknown>> {
  const descriptor = descriptors.methods.get(path) as MethodDescriptor;
  const { answer, error } = await server.send(descriptor, encode(descriptor.request, fields), headers);
  if (!answer) throw new Error(`${path}: ${error?.message}`);
  return toAnswer(descriptor, answer);
}

/** Converts a response to JSON. */
export function toAnswer(descriptor: MethodDescriptor, answer: Buffer): Record<string, unknown> {
  const method = descriptors.registry
    .getService(descriptor.service)
    ?.methods.find(({ name }) => descriptor.path.endsWith(`/${name}`));
  if (!method) throw new Error(`no ${descriptor.path}`);
  return toJson(method.output, fromBinary(method.output, answer), { registry: descriptors.registry }) as Record<
    string,
    unknown
  >;
}

/** Creates one of each resource. */
export async function createResources(server: TestApp, headers: Record<string, string>): Promise<Resources> {
  const callMethod = async (
    path: string,
    fields: Fields,
    caller: Record<string, string>,
  ): Promise<Record<string, unknown>> => await callJson(server, path, fields, caller);
  const create = async (path: string, fields: Fields): Promise<string> =>
    (await callMethod(path, fields, headers))['id'] as string;
  const connection = await create(`${CONNECTIONS}/CreateConnection`, { connectorId: 'gateway', name: 'Gateway' });
  const keyName = await create(`${TEMPLATES}/CreateNormalizedKey`, { name: 'relay of ours' });
  const templateId = await create(`${TEMPLATES}/CreateSensorTemplate`, { ...template, keyNameId: keyName });
  const media = await create(`${MEDIA}/UploadMedia`, { filename: 'pump.png', chunk: PNG });
  const device = await create(`${DEVICES}/CreateDigitalDevice`, {
    name: 'Device',
    physicalDevice: { clientDeviceId: 'client', connectionId: connection },
    images: [{ mediaId: media }],
  });
  const { sensors } = (await callMethod(
    `${DEVICES}/AddSensorsToDevice`,
    { id: device, sensorTemplateIds: [templateId] },
    headers,
  )) as { sensors: { id: string }[] };
  const command = await create(`${COMMANDS}/CreateCommand`, { id: device, command: { ...definition, name: 'First' } });
  const { executionId } = (await callMethod(
    `${COMMANDS}/ExecuteCommand`,
    { id: device, commandId: command },
    headers,
  )) as {
    executionId: string;
  };
  const { apiKey } = (await callMethod(`${ACCESS}/CreateApiKey`, { name: 'Key', scopes: ['users:read'] }, headers)) as {
    apiKey: { id: string };
  };
  const role = await create(`${ACCESS}/CreateRole`, { name: 'Of ours', scopes: ['devices:read'] });
  const { userId } = (await callMethod(`${ACCESS}/AddMember`, { name: 'Somebody', roleId: role }, headers)) as {
    userId: string;
  };
  const dashboard = await create(`${DASHBOARDS}/CreateDashboard`, { name: 'Boilers' });
  const widget = await create(`${WIDGETS}/CreateWidget`, { dashboardId: dashboard, kind: 'clock' });
  return {
    dashboard,
    widget,
    connection,
    media,
    keyName,
    template: templateId,
    device,
    sensor: sensors[0]?.id ?? '',
    command,
    execution: executionId,
    apiKey: apiKey.id,
    member: userId,
    role,
    organization: headers['x-organization-id'] ?? '',
  };
}
