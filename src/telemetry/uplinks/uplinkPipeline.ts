import { setImmediate as othersTurn } from 'node:timers/promises';
import { ConnectionRepository, type UplinkMessage, type UplinkOutcome } from '../../connections';
import { UnitOfWork, type Database, type Db } from '../../database';
import { type MappedSensor, UplinkRepository } from '../../devices';
import type { SensedUplink } from '../../executions';
import type { Logger } from '../../kernel/logger';
import { ConnectorKeyRepository } from '../keys/connectorKeyRepository';
import { LatestReadingRepository } from '../readings/latestReadingRepository';
import { SeenUplinkRepository } from './seenUplinkRepository';
import { UnboundSources } from './unboundSources';
import { UPLINK_STEPS, type UplinkRepositories, type UplinkState } from './uplinkSteps';

/** How long the id of an uplink is remembered, in milliseconds: 7 days. */
export const UPLINK_MEMORY_MS = 7 * 24 * 3600 * 1000;
const FORGOTTEN_AT_ONCE = 1000;
const MOST_UNBOUND = 1000;

/** What the pipeline needs. */
export interface UplinkPipelineOptions {
  readonly database: Database;
  readonly log: Logger;
  /** Settles what waits for an uplink of this device, inside the uplink's transaction (`db`). Called once for each uplink of a bound device that is new. */
  readonly judge: (db: Db, uplink: SensedUplink) => Promise<void>;
  /** Of how many physical devices of a connection that are bound to none keys are kept; 1000 where nothing is said. */
  readonly mostUnbound?: number;
}

/** Takes in what devices send. */
export class UplinkPipeline {
  private readonly work: UnitOfWork<UplinkRepositories>;
  private readonly unbound: UnboundSources;

  constructor(private readonly options: UplinkPipelineOptions) {
    this.unbound = new UnboundSources(options.mostUnbound ?? MOST_UNBOUND);
    this.work = new UnitOfWork(options.database, (db) => ({
      connections: new ConnectionRepository(db),
      devices: new UplinkRepository(db),
      keys: new ConnectorKeyRepository(db),
      seen: new SeenUplinkRepository(db),
      latest: new LatestReadingRepository(db),
      judge: async (uplink) => await options.judge(db, uplink),
    }));
  }

  /**
   * Stores an uplink, all of it or nothing; resolves when it is on disk. `rejected`: it can never be stored, because of
   * `uplink_id_invalid`, `client_device_id_invalid`, `payload_too_deep` or `payload_not_json`. Throws `connection_not_found`,
   * and `database_unavailable`, after which it may be handed in again.
   */
  async handle(message: UplinkMessage): Promise<UplinkOutcome> {
    const { outcome, isBound } = await this.work.transaction((repos) => this.take(message, repos));
    if (isBound) this.unbound.remove(message);
    else if (outcome.outcome === 'stored') await this.keepFew(message);
    return outcome;
  }

  /**
   * Forgets the ids of uplinks that are older than 7 days, and the keys of deleted connections, a few at a time, so that
   * nobody waits long. `now` in Unix milliseconds.
   */
  async sweep(now: number): Promise<void> {
    await this.inPortions(({ seen }) => seen.forget(now - UPLINK_MEMORY_MS, FORGOTTEN_AT_ONCE));
    const { keys } = this.work.repos;
    for (let found = await keys.findConnection(''); found; found = await keys.findConnection(found.connectionId)) {
      const { connectionId, isDeleted } = found;
      if (isDeleted) this.unbound.forget(connectionId);
      if (isDeleted) await this.inPortions((repos) => repos.keys.forget(connectionId, FORGOTTEN_AT_ONCE));
      await othersTurn();
    }
  }

  private async inPortions(forget: (repos: UplinkRepositories) => Promise<number>): Promise<void> {
    while ((await this.work.transaction(forget)) === FORGOTTEN_AT_ONCE) await othersTurn();
  }

  private async take(message: UplinkMessage, repos: UplinkRepositories): Promise<{ outcome: UplinkOutcome; isBound: boolean }> {
    const state: UplinkState = { message, samples: [], isComplete: true, binding: undefined, readings: [], refused: [] };
    for (const [name, step] of UPLINK_STEPS) {
      const outcome = await step(state, repos);
      if (outcome !== 'continue') return { outcome: this.stopped(name, message, outcome.stop), isBound: false };
    }
    if (!state.isComplete) this.options.log.debug({ ...factsOf(message), kept_paths: state.samples.length }, 'telemetry.paths_dropped');
    if (state.refused.length > 0) this.options.log.warn({ ...factsOf(message), refused_values: state.refused.length, ...refusedOf(state.refused) }, 'telemetry.values_refused');
    return { outcome: { outcome: 'stored' }, isBound: state.binding !== undefined };
  }

  /** Of a connection's physical devices that are bound to none, only so many keep their keys: those seen last. */
  private async keepFew(message: UplinkMessage): Promise<void> {
    const { organizationId } = message;
    const dropped = this.unbound.add(message);
    if (!dropped) return;
    await this.work.transaction(async ({ devices, keys }) => {
      if (await devices.findBinding(organizationId, dropped.connectionId, dropped.clientDeviceId)) return;
      await keys.delete(organizationId, dropped);
    });
    this.options.log.warn({ organization_id: organizationId, connection_id: dropped.connectionId, client_device_id: dropped.clientDeviceId }, 'telemetry.unbound_dropped');
  }

  private stopped(step: string, message: UplinkMessage, outcome: UplinkOutcome): UplinkOutcome {
    const fields = { ...factsOf(message), step, ...outcome };
    if (outcome.outcome === 'rejected') this.options.log.warn(fields, 'telemetry.uplink_rejected');
    else this.options.log.debug(fields, 'telemetry.uplink_stopped');
    return outcome;
  }
}

/** The first of them; a device has up to 500. */
function refusedOf([first]: readonly MappedSensor[]): object {
  return { first_sensor_id: first?.sensorId, first_path: first?.sourcePath, first_value_type: first?.valueType };
}

function factsOf(message: UplinkMessage): object {
  return { organization_id: message.organizationId, connection_id: message.connectionId, ...(message.identity.kind === 'id' && { uplink_id: message.identity.uplinkId }), client_device_id: message.clientDeviceId };
}
