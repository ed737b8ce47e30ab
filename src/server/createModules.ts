import { Sandbox } from '../codec';
import { ServerTls } from '../api/tls/serverTls';
import { findMethodPaths } from './adminContext';
import type { Foundation } from './foundation';
import { createAccess } from './modules/createAccess';
import { createApi } from './modules/createApi';
import { createAuthentication } from './modules/createAuthentication';
import { createCommands } from './modules/createCommands';
import { createConnections, createConnectors } from './modules/createConnections';
import { createDashboards } from './modules/createDashboards';
import { createDevices } from './modules/createDevices';
import { createExecutions } from './modules/createExecutions';
import { createMedia } from './modules/createMedia';
import { createRemoval } from './modules/createRemoval';
import { createSensorTemplates } from './modules/createSensorTemplates';
import { createTelemetry } from './modules/createTelemetry';
import { openTracing } from './openTracing';
import { registerMethods } from './registerMethods';

/** The modules of a running server. */
export type Modules = Awaited<ReturnType<typeof createModules>>;

/** Creates all modules from the bottom up, connects them, and registers their methods in the API. */
export async function createModules(foundation: Foundation) {
  const tracing = await createTracing(foundation);
  const authentication = await createAuthentication(foundation);
  const { cursors, auditLog } = authentication;
  const tls = await createTls(foundation);
  const sandbox = createSandbox(foundation, tracing);
  // An object, because the default is set only when the port is open (openPorts).
  const publicUrl = { value: foundation.config.http.publicUrl };
  const media = await createMedia(foundation, authentication, () => publicUrl.value);

  const connectors = createConnectors(foundation);
  const { hub } = connectors;
  const execution = createExecutions(foundation, { hub, encoder: sandbox, cursors, tracing });
  const { executions } = execution;
  const device = createDevices(foundation, cursors, media.links, execution);
  const connection = createConnections(foundation, connectors, cursors, {
    onDeleted: (connectionId) => executions.connectionDeleted(connectionId),
    deviceCounts: async (organizationId, ids) => await device.devices.countByConnection(organizationId, ids),
  });
  const telemetry = createTelemetry(foundation, { decoder: sandbox, cursors, executions });
  const removal = createRemoval(foundation, {
    devices: device.devices,
    connections: connection.service,
    media: media.service,
    readings: telemetry.readingMaintenance.removal,
    auditLog,
  });

  const api = createApi(foundation, { authentication, media: media.service, executions, tracing });
  registerMethods(api, foundation, {
    access: createAccess(foundation, authentication, {
      onOrganizationDeleted: () => removal.checkNow(),
      findMethodPaths: (name) => findMethodPaths(api.methods, name),
    }),
    sensorTemplates: createSensorTemplates(
      foundation,
      cursors,
      async (organizationId, templateId) => await device.sensors.countByTemplate(organizationId, templateId),
    ),
    commands: createCommands(foundation, cursors, sandbox),
    dashboards: createDashboards(foundation, cursors),
    cursors,
    connectors,
    connection,
    device,
    execution,
    telemetry,
    media,
  });
  return { authentication, tls, sandbox, publicUrl, media, connectors, executions, telemetry, removal, api };
}

async function createTracing({ config, log, database, disposables }: Foundation) {
  const tracing = await openTracing(config.traces, log);
  if (tracing) disposables.add(async () => await tracing.stop());
  database.metrics.observer = tracing?.transactions;
  return tracing;
}

async function createTls({ config, log, retentionClock, disposables }: Foundation): Promise<ServerTls> {
  // The expiry of certificates must not depend on a clock that runs ahead.
  const tls = new ServerTls({ ...config.tls, dataDir: config.data.dir, log, clock: retentionClock });
  await tls.start();
  disposables.add(() => tls.stop());
  return tls;
}

function createSandbox(
  { config, log, disposables }: Foundation,
  tracing: Awaited<ReturnType<typeof createTracing>>,
): Sandbox {
  const sandbox = new Sandbox({ ...config.codec, log, onRun: tracing && ((run) => tracing.recordScriptRun(run)) });
  disposables.add(async () => await sandbox.stop());
  return sandbox;
}
