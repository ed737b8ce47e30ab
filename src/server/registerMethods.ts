import { gatewayDefinition } from '../connections';
import { ActuatorCommandServiceService } from '../gen/actuator_command/v2/actuator_command_service';
import { ConnectionServiceService } from '../gen/connection/connection_service';
import { ConnectorServiceService } from '../gen/connector/connector_service';
import { DashboardServiceService } from '../gen/dashboard/v2/dashboard_service';
import { DigitalDeviceServiceService } from '../gen/digitaldevice/v2/digital_device_service';
import { MediaServiceService } from '../gen/media/v1/media_service';
import { AccessControlServiceService } from '../gen/organization_access_control/access_control_service';
import { OrganizationsServiceService } from '../gen/organizations_service';
import { SensorTemplateServiceService } from '../gen/sensor_template/v2/sensor_template_service';
import { SensorQueryServiceService } from '../gen/sensorquery/v1/sensor_query_service';
import { UserProfileServiceService } from '../gen/userprofile/user_profile_service';
import { WidgetServiceService } from '../gen/widget/v2/widget_service';
import type { Cursors } from '../kernel/pages';
import { DeviceProfiles, profileHandlers } from '../profiles';
import type { Services } from '../api/services';
import type { Foundation } from './foundation';
import type { createAccess } from './modules/createAccess';
import type { createCommands } from './modules/createCommands';
import type { ConnectorModule, createConnections } from './modules/createConnections';
import type { createDashboards } from './modules/createDashboards';
import type { createDevices } from './modules/createDevices';
import type { createExecutions } from './modules/createExecutions';
import type { MediaModule } from './modules/createMedia';
import type { createSensorTemplates } from './modules/createSensorTemplates';
import type { createTelemetry } from './modules/createTelemetry';

/** The modules with methods. */
interface ModulesWithMethods {
  readonly access: ReturnType<typeof createAccess>;
  readonly sensorTemplates: ReturnType<typeof createSensorTemplates>;
  readonly commands: ReturnType<typeof createCommands>;
  readonly connectors: ConnectorModule;
  readonly connection: ReturnType<typeof createConnections>;
  readonly device: ReturnType<typeof createDevices>;
  readonly execution: ReturnType<typeof createExecutions>;
  readonly telemetry: ReturnType<typeof createTelemetry>;
  readonly dashboards: ReturnType<typeof createDashboards>;
  readonly media: MediaModule;
  readonly cursors: Cursors;
}

/** Registers the methods of all modules in the API. A service may have methods of several modules. */
export function registerMethods(api: Services, { database }: Foundation, modules: ModulesWithMethods): void {
  const { access, sensorTemplates, commands, connectors, connection, device, execution, telemetry, media } = modules;
  api.addService(AccessControlServiceService, access.accessControlHandlers);
  api.addService(OrganizationsServiceService, access.organizationHandlers);
  api.addService(UserProfileServiceService, access.userProfileHandlers);
  api.addService(SensorTemplateServiceService, sensorTemplates);
  api.addService(ConnectorServiceService, connection.connectorHandlers);
  api.addService(ConnectionServiceService, { ...connection.connectionHandlers, ...telemetry.discoveredDeviceHandlers });
  api.addService(DigitalDeviceServiceService, {
    ...device.handlers,
    ...telemetry.connectorKeyHandlers,
    ...profileHandlers(new DeviceProfiles({ database, cursors: modules.cursors })),
  });
  api.addService(ActuatorCommandServiceService, { ...commands, ...execution.handlers });
  api.addService(SensorQueryServiceService, telemetry.queryHandlers);
  api.addService(DashboardServiceService, modules.dashboards.dashboardHandlers);
  api.addService(WidgetServiceService, {
    ...modules.dashboards.widgetHandlers,
    ...modules.telemetry.widgetDataHandlers,
  });
  api.addService(MediaServiceService, media.handlers);
  api.addService(gatewayDefinition, connectors.gatewayHandlers);
}
