import { createAccessRepositories, bootstrap, type Bootstrapped } from '../access';
import type { Config } from '../config';
import { lockDataFolder, UnitOfWork } from '../database';
import type { DomainError } from '../kernel/errors';
import { ClockMonitor, watchDescriptors } from '../observability';
import { createAdminServices, type AdminServices } from './adminContext';
import { createModules, type Modules } from './createModules';
import { Disposables } from './disposables';
import type { ExternalDependencies } from './externalDependencies';
import type { Foundation } from './foundation';
import { Monitoring } from './monitoring';
import { openPorts } from './openPorts';
import { openStorage } from './openStorage';
import { startModules, warmUp } from './startModules';

/** A running server. */
export interface RunningServer extends AdminServices {
  /** `host:port` of each port; `http` and `metrics` are undefined when they are disabled. */
  readonly addresses: {
    readonly grpc: string;
    readonly http: string | undefined;
    readonly metrics: string | undefined;
  };
  /** The file of the CA that clients must trust; undefined unless the server created it. */
  readonly ca: string | undefined;
  /** The records that the first start on an empty database created; undefined on later starts. */
  readonly bootstrapped: Bootstrapped | undefined;
  /** The organization, if there is exactly one. */
  readonly onlyOrganizationId: string | undefined;
  /** Resolves with the reason when the server lost ownership of the database. The caller must stop the server. */
  readonly ownershipLost: Promise<DomainError>;
  /** Resolves with the reason when the system clock moved backwards. The caller must restart the server. */
  readonly clockMovedBackwards: Promise<DomainError>;
  /** Stops gracefully, within the configured time limit. */
  stop(): Promise<void>;
}

/** Callbacks of startServer. */
interface StartHooks {
  /** Called when the data folder was moved or deleted; later writes are lost. */
  readonly onDataFolderLost?: (() => void) | undefined;
  /** Saves the first key before it is stored. If it throws, the start fails and no key is created. */
  readonly saveFirstKey?: ((made: Bootstrapped) => void) | undefined;
}

/**
 * Starts the server: locks the data folder, opens the storage, creates and starts the modules, opens the ports. Throws
 * a DomainError that says how to fix the problem; then everything that was opened is closed again.
 */
export async function startServer(
  config: Config,
  external: ExternalDependencies,
  hooks: StartHooks = {},
): Promise<RunningServer> {
  const monitoring = new Monitoring(config, external);
  const { log } = monitoring;
  const disposables = new Disposables(log);
  try {
    return await runStartSteps(config, { ...external, log }, hooks, { monitoring, disposables });
  } catch (error) {
    // The error of the start matters more than a failure to close.
    await disposables.disposeAll().catch((failure: unknown) => log.error({ err: failure }, 'server.close_failed'));
    throw error;
  }
}

/**
 * Runs the steps of startServer in order. Each adds the action that undoes it to `disposables`, which the caller runs
 * if a later step fails.
 */
async function runStartSteps(
  config: Config,
  { log, clock: machineClock, configFile, acceptsDataLoss = false }: ExternalDependencies,
  { onDataFolderLost, saveFirstKey }: StartHooks,
  { monitoring, disposables }: Pick<Foundation, 'monitoring' | 'disposables'>,
): Promise<RunningServer> {
  const { promise: clockMovedBackwards, resolve: onMovedBackwards } = Promise.withResolvers<DomainError>();
  const clockMonitor = new ClockMonitor({ dataDir: config.data.dir, clock: machineClock, log, onMovedBackwards });
  const clock = clockMonitor.steadyClock;
  const lock = await lockDataFolder(config.data.dir, machineClock);
  disposables.add(() => lock.release());
  disposables.add(async () => await monitoring.stop());
  const metrics = await monitoring.start();
  const external = { log, clock, configFile, acceptsDataLoss };
  const { database, ownershipLost } = await openStorage(config, external, disposables, onDataFolderLost);

  const foundation: Foundation = {
    config,
    configFile,
    log,
    database,
    clock,
    retentionClock: clockMonitor.retentionClock,
    isClockUnreliable: () => clockMonitor.isUnreliable(),
    monitoring,
    disposables,
  };
  const modules = await createModules(foundation);
  await startModules(foundation, modules);
  clockMonitor.mayRunSlower = () => !modules.executions.deadlines.hasPendingDeadline;
  const ports = await openPorts(foundation, modules);

  // Last, when the start can no longer fail: a created key is shown only once.
  const bootstrapped = await createFirstKey(foundation, modules, saveFirstKey);
  startMonitors(foundation, clockMonitor);
  const { keyChanged, accessChanged } = modules.authentication;
  const admin = createAdminServices(database, clock, { keyChanged, accessChanged });
  const [firstOrganization, ...otherOrganizations] = await admin.organizations.list();
  monitoring.readiness.markStarted();
  const warmUpTask = setImmediate(() => warmUp(modules)); // after the server has reported ready
  disposables.add(() => clearImmediate(warmUpTask));
  return {
    ...admin,
    addresses: { ...ports, metrics },
    ca: modules.tls.caFile,
    bootstrapped,
    onlyOrganizationId: otherOrganizations.length === 0 ? firstOrganization?.id : undefined,
    ownershipLost,
    clockMovedBackwards,
    stop: async () => await disposables.disposeAll(),
  };
}

/** Creates the first organization, user and key on an empty database, and records it in the audit trail. */
async function createFirstKey(
  { database, clock }: Foundation,
  { authentication }: Modules,
  saveFirstKey: StartHooks['saveFirstKey'],
): Promise<Bootstrapped | undefined> {
  const bootstrapped = await bootstrap(new UnitOfWork(database, createAccessRepositories), clock, saveFirstKey);
  if (bootstrapped) {
    const { organization, apiKey } = bootstrapped;
    authentication.auditLog.recordServerEvent(organization.id, 'bootstrap', `api-keys/${apiKey.id}`);
  }
  return bootstrapped;
}

/** Starts to watch the clock, the disk and the open file descriptors. */
function startMonitors({ config, database, log, disposables }: Foundation, clockMonitor: ClockMonitor): void {
  clockMonitor.start();
  database.disk.start(config.database.url === '' ? config.database.diskReserveMib : 0);
  disposables.add(async () => await database.disk.stop());
  disposables.add(watchDescriptors({ log }));
  disposables.add(async () => await clockMonitor.stop());
}
