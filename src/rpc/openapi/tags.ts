import type { MethodFacts } from '../descriptors';
import type { JsonObject } from './json';

/** The tag of what is reached by its gRPC path. */
export const GRPC_PATHS = 'gRPC paths';

// The areas of the interface, in its order; those of which there is nothing yet are left out of the document.
const AREAS: Readonly<Record<string, string>> = {
  Users: 'The person behind a key.',
  Devices: 'Digital devices, bound to physical devices by connections.',
  Sensors: 'The sensors on devices, what they measure, and how values reach them.',
  Commands: 'Commands of devices, and their executions from the request to what was observed of them.',
  Telemetry: 'What sensors showed: last, over a time, summed up, and as it comes in.',
  Connections: 'Configured instances of connectors: the ways to physical devices.',
  Connectors: 'The catalogue of connector types.',
  Dashboards: 'Dashboards and their widgets.',
  Orgs: 'Organizations, their people and roles, and the audit trail.',
  Subscriptions: 'Subscriptions.',
  'Api-Keys': 'API keys: who may do what.',
  Rules: 'Rules.',
  Media: 'Pictures: uploaded once, shown on devices.',
  [GRPC_PATHS]: 'Every operation once more: POST at its gRPC path with the whole request as one JSON object, for programs that are made from the protos. Names, checks, answers and statuses are those of the other path.',
};

const AREA_OF_SERVICE: Readonly<Record<string, string>> = {
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
  'media.v1.MediaService': 'Media',
};

/** The area that a method belongs to; a service that is in none has one of its own. */
export function areaOf({ service, scope }: MethodFacts): string {
  if (scope.startsWith('sensors:')) return 'Sensors';
  if (scope.startsWith('organizations:') || scope === 'audit:read') return 'Orgs';
  return AREA_OF_SERVICE[service] ?? service.slice(service.lastIndexOf('.') + 1);
}

/** The tags of a document, in the order of the interface. */
export function tagsOf(used: ReadonlySet<string>): JsonObject[] {
  const known = Object.keys(AREAS).filter((name) => used.has(name));
  const others = [...used].filter((name) => !(name in AREAS));
  return [...known.filter((name) => name !== GRPC_PATHS), ...others, ...known.filter((name) => name === GRPC_PATHS)].map((name) => ({ name, ...(AREAS[name] && { description: AREAS[name] }) }));
}
