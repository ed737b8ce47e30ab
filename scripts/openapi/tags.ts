import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import type { JsonObject } from './json';

// The areas of the API in the order of the specification. The document omits areas without operations.
const DESCRIPTION_BY_AREA: Readonly<Record<string, string>> = {
  Users: 'The owner of a key.',
  Devices: 'Digital devices, their binding to physical devices of connections, and their images.',
  Sensors: 'The sensors of devices, their templates, and the mapping of values to them.',
  Commands: 'Commands of devices, and their executions from the request to the observed effect.',
  Telemetry: 'Sensor readings: the latest, in a time range, aggregated, and live.',
  Connections: 'Configured instances of connectors, which link the server to physical devices.',
  Connectors: 'The catalogue of connector types.',
  Dashboards: 'Dashboards and their widgets.',
  Orgs: 'Organizations, their members and roles, and the audit trail.',
  Subscriptions: 'Subscriptions.',
  'Api-Keys': 'API keys and their permissions.',
  Rules: 'Rules.',
};

const AREA_BY_SERVICE: Readonly<Record<string, string>> = {
  'userprofile.UserProfileService': 'Users',
  'digitaldevice.v2.DigitalDeviceService': 'Devices',
  'sensor_template.v2.SensorTemplateService': 'Sensors',
  'connector.ConnectorService': 'Connectors',
  'connection.ConnectionService': 'Connections',
  'dashboard.v2.DashboardService': 'Dashboards',
  'widget.v2.WidgetService': 'Dashboards',
  'actuator_command.v2.ActuatorCommandService': 'Commands',
  'sensorquery.v1.SensorQueryService': 'Telemetry',
  OrganizationsService: 'Orgs',
  'organization_access_control.AccessControlService': 'Api-Keys',
  'media.v1.MediaService': 'Devices',
};

/** Returns the area of a method by its scope or its service; the name of the service if it has no area. */
export function getArea({ service, scope }: MethodDescriptor): string {
  if (scope.startsWith('sensors:')) return 'Sensors';
  if (scope.startsWith('organizations:') || scope === 'audit:read') return 'Orgs';
  return AREA_BY_SERVICE[service] ?? service.slice(service.lastIndexOf('.') + 1);
}

/** Returns the tags of a document: the areas in the order of the specification, then other services. */
export function listTags(used: ReadonlySet<string>): JsonObject[] {
  const usedAreas = Object.keys(DESCRIPTION_BY_AREA).filter((name) => used.has(name));
  const others = [...used].filter((name) => !(name in DESCRIPTION_BY_AREA));
  return [...usedAreas, ...others].map((name) => ({
    name,
    ...(DESCRIPTION_BY_AREA[name] && { description: DESCRIPTION_BY_AREA[name] }),
  }));
}
