import { hostname } from 'node:os';
import { AuditTrail, accessRepositories, Authentication, bootstrap, openCursors, openInstallationId, openLinkSecret, type Bootstrapped } from './access';
import { Sandbox } from './codec';
import { findHostPort, hostPortText, isLoopback, type Config } from './config';
import { compileSchemas, ConnectionStarter, SecretKey } from './connections';
import { lockDataFolder, UnitOfWork, watchDataFolder, type Database } from './database';
import type { Executions } from './executions';
import type { Clock } from './kernel/clock';
import type { DomainError } from './kernel/errors';
import type { Logger } from './kernel/logger';
import { linkedMedia, MediaLinks, MediaService } from './media';
import { ClockMemory, ReachGate, reachQueries, watchDescriptors } from './operations';
import { GrpcServer } from './rpc/grpc/server';
import { RestServer } from './rpc/rest/server';
import { Services } from './rpc/services';
import { ServerTls } from './rpc/tls/serverTls';
import { seedSystemRecords, sensorTemplateRepositories } from './sensorTemplates';
import type { UplinkPipeline } from './telemetry';
import { backupSchedule, checkBackupSchedule } from './app/backup';
import { administration, openConfigured, type Core, type Outside } from './app/core';
import { addServices } from './app/services';
import { openTraces } from './app/tracing';
import { Watching } from './app/watching';

export { backUp, backupFolderOf, type BackUpOptions, takeBackupTurn } from './app/backup';
export { openCore, type Core, type Outside, type ProfileAdministration } from './app/core';

/** A server that serves. */
export interface App extends Pick<Core, 'organizations' | 'deletion' | 'users' | 'members' | 'roles' | 'keys'> {
  /** `host:port` as each port listens; `http` and `metrics` are undefined when they are switched off. */
  readonly addresses: { readonly grpc: string; readonly http: string | undefined; readonly metrics: string | undefined };
  /** The file of the CA that clients have to trust; undefined unless the server made it itself. */
  readonly ca: string | undefined;
  /** What the first start on an empty database made; undefined on any other. */
  readonly bootstrapped: Bootstrapped | undefined;
  /** The organization, if there is just one. */
  readonly onlyOrganizationId: string | undefined;
  /** Resolves if the database cannot be kept from other servers any more: why. Then stop. */
  readonly databaseLost: Promise<DomainError>;
  /** Resolves if the clock of the machine was put back: why that ends the server. Then stop, and start again. */
  readonly clockPutBack: Promise<DomainError>;
  /** Stops in peace, within the limit of the configuration. */
  stop(): Promise<void>;
}

type Closing = (() => void | Promise<void>)[];

const EVERY_HOUR = 3_600_000;

/**
 * Starts the server: takes the data folder, brings the schema up to date, then serves. Throws a DomainError that says what to mend.
 * `onDataFolderLost`: the folder was moved or deleted, so what is still acknowledged is lost.
 */
export async function startApp(config: Config, { log: ownLog, clock, configFile }: Outside, onDataFolderLost?: () => void): Promise<App> {
  checkBackupSchedule(config);
  const watching = new Watching(config, { log: ownLog, clock });
  const { log } = watching;
  const { promise: clockPutBack, resolve: onPutBack } = Promise.withResolvers<DomainError>();
  const memory = new ClockMemory({ dataDir: config.data.dir, clock, log, onPutBack });
  const outside = { log, clock: memory.steady, configFile };
  const closing: Closing = [];
  const stop = async (): Promise<void> => await closeAll(closing.splice(0), log);
  try {
    const lock = await lockDataFolder(config.data.dir, clock);
    closing.push(() => lock.release(), async () => await watching.stop());
    const metrics = await watching.start();
    const database = await openConfigured(config, outside);
    closing.push(async () => await database.close());
    if (onDataFolderLost) closing.push(watchDataFolder(config.data.dir, config.database.url === '' ? ['plantroom.db'] : [], onDataFolderLost));
    const { promise: databaseLost, resolve: onLost } = Promise.withResolvers<DomainError>();
    await database.own(onLost);
    await database.migrate();
    await new UnitOfWork(database, accessRepositories).repos.organizations.removeEmptied();
    await seedSystemRecords(new UnitOfWork(database, sensorTemplateRepositories), outside.clock);
    const { trail, warmUp, ...served } = await serve(config, database, { ...outside, forgetting: memory.forgetting, isClockDoubted: () => memory.isDoubted }, closing, watching);
    // Last, when nothing can keep the server from starting: a key that is made is also shown, this once.
    const bootstrapped = await bootstrap(new UnitOfWork(database, accessRepositories), outside.clock);
    if (bootstrapped) trail.did(bootstrapped.organization.id, 'bootstrap', `api-keys/${bootstrapped.apiKey.id}`);
    memory.start();
    database.disk.start(config.database.url === '' ? config.database.reserveMib : 0);
    closing.push(async () => await database.disk.stop(), watchDescriptors({ log }), () => memory.stop());
    const [first, ...others] = await served.organizations.list();
    watching.readiness.serve();
    const warming = setImmediate(warmUp); // after it was said that it serves
    closing.push(() => clearImmediate(warming));
    return { ...served, addresses: { ...served.addresses, metrics }, bootstrapped, onlyOrganizationId: others.length === 0 ? first?.id : undefined, databaseLost, clockPutBack, stop };
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

/** Builds the rooms and opens the port. What has to be closed again goes to `closing`, in the order in which it was opened; `warmUp` makes ready what nobody waits for at a start. */
async function serve(config: Config, database: Database, { forgetting, isClockDoubted, ...outside }: Outside & { readonly forgetting: Clock; readonly isClockDoubted: () => boolean }, closing: Closing, watching: Watching): Promise<Omit<App, 'addresses' | 'bootstrapped' | 'onlyOrganizationId' | 'databaseLost' | 'clockPutBack' | 'stop'> & { readonly addresses: Pick<App['addresses'], 'grpc' | 'http'>; readonly trail: AuditTrail; readonly warmUp: () => void }> {
  const traces = await openTraces(config.traces, outside.log);
  if (traces) closing.push(async () => await traces.stop());
  database.times.observer = traces?.transactions;
  const uow = new UnitOfWork(database, accessRepositories);
  const authentication = new Authentication({ uow, rates: config.rates, ...outside });
  closing.push(async () => await authentication.close());
  const tls = new ServerTls({ ...config.tls, dataDir: config.data.dir, ...outside, clock: forgetting }); // a certificate outlives a clock that is ahead
  await tls.start();
  closing.push(() => tls.stop());

  const trail = new AuditTrail({ database, ...config.audit, ...outside, forgetting });
  await trail.start();
  closing.push(async () => await trail.close());

  const gate = new ReachGate(reachQueries(database, { media: async (...asked) => await media.outside(...asked), executions: async (...asked) => await executions.service.executionsOutside(...asked) }));
  const services = new Services({ authenticator: authentication, reflection: config.grpc.reflection, auditor: trail, gate, requireRoom: () => database.disk.requireRoom(), readiness: watching.readiness, observers: traces ? [...watching.observers, traces.calls] : watching.observers, ...outside });
  authentication.onKeyChanged((keyId) => services.keyChanged(keyId));
  authentication.onAccessChanged((organizationId) => services.accessChanged(organizationId));
  const keyChanged = (keyId: string): void => authentication.keyChanged(keyId);
  const accessChanged = (organizationId: string): void => authentication.accessChanged(organizationId);
  const encoder = new Sandbox({ ...config.codec, log: outside.log, onRun: traces && ((run) => traces.script(run)) });
  closing.push(async () => await encoder.stop());
  const secretKey = new SecretKey({ ...config.secrets, dataDir: config.data.dir, log: outside.log });
  const installationId = await openInstallationId(uow);
  const media = new MediaService({ database, dataDir: config.data.dir, installationId, ...outside });
  await media.start();
  closing.push(async () => await media.stop());
  let publicUrl = config.http.publicUrl; // else known once the port is open
  const mediaLinks = new MediaLinks(await openLinkSecret(uow), () => publicUrl, outside.clock);
  const { executions, uplinks, upkeep, hub, opener, removal, connectionFigures, undecoded } = addServices(services, { database, cursors: await openCursors(uow), keyChanged, accessChanged, encoder, secretKey, media, mediaLinks, trail, forgetting, traces, ...outside });
  await watching.show({ database, installationId, executions, uplinks, undecoded, connections: connectionFigures, sandbox: encoder, media, trail, certificateEndsAt: () => tls.endsAt, clock: outside.clock });
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
  const backups = backupSchedule(config, { ...outside, isClockDoubted }, installationId);
  backups.start();
  closing.push(async () => await backups.stop());
  const sweeping = setInterval(() => void forgetOld(executions, uplinks, media, { log: outside.log, clock: forgetting }), EVERY_HOUR).unref();
  closing.push(() => clearInterval(sweeping));

  const grpcServer = new GrpcServer({ services, tls, limits: config.limits });
  const restServer = config.http.listen === 'off' ? undefined : new RestServer({ services, tls, links: [linkedMedia(media, mediaLinks)], ...config.http, limits: config.limits });
  closing.push(async () => await services.stop(config.limits.stopMs, restServer ? [grpcServer, restServer] : [grpcServer]));
  closing.push(() => uplinks.stop()); // before those that wait for what came to be stored
  const grpc = await grpcServer.start(config.grpc.listen);
  const http = await restServer?.start(config.http.listen);
  if (http) publicUrl ||= defaultPublicUrl(http.address, tls.isOn);
  const people = administration(database, outside, keyChanged, accessChanged);
  return { ...people, trail, warmUp: () => makeReady(encoder), addresses: { grpc: grpc.address, http: http?.address }, ca: tls.caFile };
}

/** What takes a moment, and what the first who asks would wait for. */
function makeReady(encoder: Sandbox): void {
  encoder.warmUp();
  void compileSchemas();
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

/** How browsers reach this server where nobody said it. */
function defaultPublicUrl(listens: string, tls: boolean): string {
  const { host, port } = findHostPort(listens) ?? { host: 'localhost', port: 0 };
  const everywhere = host === '0.0.0.0' || host === '::';
  return `http${tls ? 's' : ''}://${hostPortText({ host: everywhere ? hostname() : isLoopback(host) ? 'localhost' : host, port })}`;
}
