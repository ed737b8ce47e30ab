import { compileSchemas, ConnectionBootstrapper, type ConnectorHub } from '../connections';
import { WIDGET_KINDS } from '../dashboards';
import type { Executions } from '../executions';
import type { UplinkPipeline } from '../telemetry';
import { createBackupSchedule } from './backups';
import type { Modules } from './createModules';
import type { Foundation } from './foundation';
import { startPurging } from './purgeExpired';

/**
 * Starts the modules: uplinks and executions first, then the connections whose events they receive, then background
 * work.
 */
export async function startModules(foundation: Foundation, modules: Modules): Promise<void> {
  const { database, log, disposables } = foundation;
  const { connectors, executions, telemetry, removal } = modules;
  const { hub, factory } = connectors;
  connectHub(hub, telemetry.uplinks, executions);
  await registerMetrics(foundation, modules);
  await telemetry.uplinks.start();
  await executions.start();
  disposables.add(async () => await executions.stop());
  const bootstrapper = new ConnectionBootstrapper({ database, hub, factory, log });
  disposables.add(async () => await hub.stop());
  disposables.add(async () => await bootstrapper.stop());
  bootstrapper.start();
  telemetry.readingMaintenance.start();
  disposables.add(async () => await telemetry.readingMaintenance.stop());
  removal.start();
  disposables.add(async () => await removal.stop());
  startBackups(foundation, modules);
  startPurging(foundation, modules);
}

/** Passes the events of the connectors (see ConnectorEvents) to the modules that process them. */
function connectHub(hub: ConnectorHub, uplinks: UplinkPipeline, executions: Executions): void {
  hub.start({
    uplink: async (message) => await uplinks.handle(message),
    evidence: async (...args) => await executions.evidenceService.applyEvidence(...args),
    deviceEvidence: async (...args) => await executions.evidenceService.applyDeviceEvidence(...args),
    attached: async (attachment) => await executions.evidenceService.attached(attachment),
    detached: async (organizationId, connectionId) => await executions.detached(organizationId, connectionId),
    ready: (organizationId, connectionId) => executions.ready(organizationId, connectionId),
  });
}

/** Gives the monitoring the components whose metrics it exposes. */
async function registerMetrics({ monitoring, database, clock }: Foundation, modules: Modules): Promise<void> {
  const { authentication, executions, telemetry, connectors, sandbox, media, tls } = modules;
  await monitoring.registerMetrics({
    database,
    clock,
    installationId: authentication.installationId,
    auditLog: authentication.auditLog,
    executions,
    uplinks: telemetry.uplinks,
    undecoded: telemetry.decoder.failureCounts,
    connections: connectors.readMetrics,
    dataWarnings: connectors.statuses.dataWarningCounts,
    sandbox,
    media: media.service,
    getCertificateNotAfter: () => tls.notAfter,
  });
}

/** Starts the schedule of automatic backups. */
function startBackups(foundation: Foundation, { authentication }: Modules): void {
  const { config, configFile, log, clock, isClockUnreliable, disposables } = foundation;
  const external = { configFile, log, clock, isClockUnreliable };
  const backups = createBackupSchedule(config, external, authentication.installationId);
  backups.start();
  disposables.add(async () => await backups.stop());
}

/** Prepares what the first requests need. It runs after the server has reported ready. */
export function warmUp({ sandbox }: Modules): void {
  sandbox.warmUp();
  void compileSchemas();
  void compileSchemas(WIDGET_KINDS.map(({ optionsSchema }) => optionsSchema));
}
