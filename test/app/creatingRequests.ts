import type { JsonObject } from '../support/http';
import type { Fields } from '../support/testApp';

export const ACCESS = '/organization_access_control.AccessControlService';
export const COMMANDS = '/actuator_command.v2.ActuatorCommandService';
export const CONNECTIONS = '/connection.ConnectionService';
export const DASHBOARDS = '/dashboard.v2.DashboardService';
export const DEVICES = '/digitaldevice.v2.DigitalDeviceService';
const ORGANIZATIONS = '/OrganizationsService';
export const TEMPLATES = '/sensor_template.v2.SensorTemplateService';
const WIDGETS = '/widget.v2.WidgetService';

/** Records that the requests refer to. */
export interface Records {
  readonly deviceId: string;
  readonly templateId: string;
  readonly keyNameId: string;
  readonly apiKeyId: string;
  readonly dashboardId: string;
}

/** A request for each method that stores its response; `grpc` is set where enums make the gRPC request different. */
export const REQUESTS: Readonly<
  Record<
    string,
    (records: Records) => { readonly json: JsonObject; readonly grpc?: Fields; readonly other: JsonObject }
  >
> = {
  [`${ACCESS}/CreateApiKey`]: () => ({
    json: { name: 'Door', scopes: ['devices:read'] },
    other: { name: 'Door', scopes: ['sensors:read'] },
  }),
  [`${ACCESS}/RotateApiKey`]: ({ apiKeyId: id }) => ({ json: { id }, other: { id, graceSeconds: 5 } }),
  [`${ACCESS}/AddMember`]: () => ({
    json: { name: 'Ada', roleId: 'viewer' },
    other: { name: 'Ada', roleId: 'operator' },
  }),
  [`${ACCESS}/CreateRole`]: () => ({
    json: { name: 'Night shift', scopes: ['devices:read'] },
    other: { name: 'Day shift', scopes: ['devices:read'] },
  }),
  [`${COMMANDS}/CreateCommand`]: ({ deviceId: id }) => {
    const command = { name: 'Open', directPayload: '{"on": true}' };
    return {
      json: { id, command: { ...command, mode: 'direct', verificationStrategy: 'no_verification' } },
      grpc: { id, command: { ...command, mode: 1, verificationStrategy: 1 } },
      other: { id, command: { ...command, name: 'Shut', mode: 'direct', verificationStrategy: 'no_verification' } },
    };
  },
  [`${CONNECTIONS}/CreateConnection`]: () => ({
    json: { connectorId: 'gateway', name: 'Pump room' },
    other: { connectorId: 'gateway', name: 'Roof' },
  }),
  [`${DASHBOARDS}/CreateDashboard`]: () => ({ json: { name: 'Boilers' }, other: { name: 'Pumps' } }),
  [`${DASHBOARDS}/ImportDashboard`]: () => {
    const document = { format: 'plantroom.dashboard', formatVersion: 1, name: 'Imported' };
    return { json: { document }, other: { document: { ...document, name: 'Other document' } } };
  },
  [`${DASHBOARDS}/CreateStarterDashboards`]: () => ({ json: { again: false }, other: { again: true } }),
  [`${WIDGETS}/CreateWidget`]: ({ dashboardId }) => ({
    json: { dashboardId, kind: 'clock' },
    other: { dashboardId, kind: 'alarms' },
  }),
  [`${DEVICES}/CreateDigitalDevice`]: () => ({ json: { name: 'Valve' }, other: { name: 'Relay' } }),
  [`${DEVICES}/AddSensorsToDevice`]: ({ deviceId: id, templateId }) => ({
    json: { id, sensorTemplateIds: [templateId] },
    other: { id, sensorTemplateIds: [templateId, templateId] },
  }),
  [`${ORGANIZATIONS}/CreateOrganization`]: () => ({ json: { name: 'North' }, other: { name: 'South' } }),
  [`${TEMPLATES}/CreateSensorTemplate`]: ({ keyNameId }) => ({
    json: { keyNameId, sensorType: 'torque', valueType: 'number' },
    other: { keyNameId, sensorType: 'torque', valueType: 'integer' },
  }),
  [`${TEMPLATES}/CreateNormalizedKey`]: () => ({ json: { name: 'stem_torque' }, other: { name: 'stem_force' } }),
};
