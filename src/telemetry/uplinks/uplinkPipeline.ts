import { setImmediate as othersTurn } from 'node:timers/promises';
import { ConnectionRepository, type UplinkMessage, type UplinkOutcome } from '../../connections';
import { CommitUnknown, UnitOfWork, type Database, type Db } from '../../database';
import { UplinkRepository } from '../../devices';
import type { SensedUplink } from '../../executions';
import type { Logger } from '../../kernel/logger';
import type { Decoded, UplinkDecoder } from '../decoding/uplinkDecoder';
import { ConnectorKeyRepository } from '../keys/connectorKeyRepository';
import { LatestReadingRepository } from '../readings/latestReadingRepository';
import type { ReadingPositions } from '../readings/readingPositions';
import { ReadingRepository } from '../readings/readingRepository';
import type { MappedValue } from '../readings/readings';
import { RefusedValueRepository } from '../readings/refusedValueRepository';
import type { SeriesNumbers } from '../readings/seriesNumbers';
import { SeriesRepository } from '../readings/seriesRepository';
import { DiscoveredDeviceRepository } from './discoveredDeviceRepository';
import { SeenUplinkRepository } from './seenUplinkRepository';
import { UnknownDevices, type UnknownLimits } from './unknownDevices';
import { UplinkCounts } from './uplinkCounts';
import { UPLINK_STEPS, type UplinkRepositories, type UplinkState } from './uplinkSteps';

/** How long the id of an uplink is remembered, in milliseconds: 7 days. */
export const UPLINK_MEMORY_MS = 7 * 24 * 3600 * 1000;
const FORGOTTEN_AT_ONCE = 1000;

/** What the pipeline needs. */
export interface UplinkPipelineOptions {
  readonly database: Database;
  readonly log: Logger;
  /** The order of all readings. */
  readonly positions: ReadingPositions;
  /** The series of all readings. */
  readonly series: SeriesNumbers;
  /** Settles what waits for an uplink of this device, inside the uplink's transaction (`db`). Called once for each uplink of a bound device that is new. */
  readonly judge: (db: Db, uplink: SensedUplink) => Promise<void>;
  /** Decodes what comes as bytes; absent: it stays as it is. */
  readonly decoder?: Pick<UplinkDecoder, 'decode' | 'stop'>;
  /** 1,000 and 10,000 where nothing is said. */
  readonly unknown?: UnknownLimits;
}

/** Takes in what devices send. */
export class UplinkPipeline {
  private readonly work: UnitOfWork<UplinkRepositories>;
  private readonly unknown: UnknownDevices;
  /** What came of uplinks so far. */
  readonly counts = new UplinkCounts();

  constructor(private readonly options: UplinkPipelineOptions) {
    this.unknown = new UnknownDevices(options.database, options.log, options.unknown);
    this.work = new UnitOfWork(options.database, (db) => ({
      connections: new ConnectionRepository(db),
      devices: new UplinkRepository(db),
      keys: new ConnectorKeyRepository(db),
      seen: new SeenUplinkRepository(db),
      discovered: new DiscoveredDeviceRepository(db),
      latest: new LatestReadingRepository(db),
      readings: new ReadingRepository(db),
      refused: new RefusedValueRepository(db),
      seriesOf: async (organizationId, sensorIds) => await options.series.of(new SeriesRepository(db), organizationId, sensorIds),
      judge: async (uplink) => await options.judge(db, uplink),
    }));
  }

  /** Call it once, before the first uplink: positions go on after the last one that is stored. */
  async start(): Promise<void> {
    this.options.positions.startAfter(await new SeriesRepository(this.options.database.db).lastPosition());
  }

  /**
   * Stores an uplink, all of it or nothing; resolves when it is on disk. `rejected`: it can never be stored, because of
   * `uplink_id_invalid`, `client_device_id_invalid`, `payload_too_deep` or `payload_not_json`. Throws `connection_not_found`,
   * and `database_unavailable`, `storage_full`, `storage_read_only` or `shutting_down`, after which it may be handed in again.
   */
  async handle(message: UplinkMessage): Promise<UplinkOutcome> {
    const { results } = this.counts;
    try {
      const outcome = await this.taken(message);
      results.add(outcome.outcome);
      return outcome;
    } catch (error) {
      results.add('failed');
      throw error;
    }
  }

  private async taken(message: UplinkMessage): Promise<UplinkOutcome> {
    const since = performance.now();
    this.options.database.disk.requireRoom();
    // Before the transaction, and before it takes its place in the order of all: nobody waits for a script with a lock.
    const decoded = (await this.options.decoder?.decode(message)) ?? {};
    const { outcome, state } = await this.stored(message, decoded);
    if (outcome.outcome !== 'stored') return outcome;
    this.counts.store(state, performance.now() - since);
    this.report(state);
    if (state.binding) this.unknown.bound(message);
    else await this.unknown.seen(message, state.isDiscovery);
    return outcome;
  }

  /** The server stops: uplinks whose decoder has to wait are refused with `shutting_down`, so that nobody waits for them. */
  stop(): void {
    this.options.decoder?.stop();
  }

  /**
   * Forgets the ids of uplinks that are older than 7 days, what is kept of deleted connections, that devices which are bound by now were
   * once unknown, and the connector keys of unknown ones that are too many; a few at a time, so that nobody waits long. `now` in Unix milliseconds.
   */
  async sweep(now: number): Promise<void> {
    await this.inPortions(({ seen }) => seen.forget(now - UPLINK_MEMORY_MS, FORGOTTEN_AT_ONCE));
    const { keys, discovered } = this.work.repos;
    for (let found = await keys.findConnection(''); found; found = await keys.findConnection(found.connectionId)) {
      const { connectionId, isDeleted } = found;
      if (isDeleted) this.unknown.forget(connectionId);
      if (isDeleted) await this.inPortions((repos) => repos.keys.forget(connectionId, FORGOTTEN_AT_ONCE));
      await othersTurn();
    }
    for (let found = await discovered.findConnection(''); found; found = await discovered.findConnection(found.connectionId)) {
      const { organizationId, ...connection } = found;
      await this.inPortions((repos) => repos.discovered.forget(organizationId, connection, FORGOTTEN_AT_ONCE));
      await this.unknown.trimKeys(organizationId, found.connectionId);
      await othersTurn();
    }
    this.unknown.recount();
  }

  private async inPortions(forget: (repos: UplinkRepositories) => Promise<number>): Promise<void> {
    while ((await this.work.transaction(forget)) === FORGOTTEN_AT_ONCE) await othersTurn();
  }

  /** The whole way of an uplink; its readings are told to whoever listens. */
  private async stored(message: UplinkMessage, decoded: Decoded): Promise<{ outcome: UplinkOutcome; state: UplinkState }> {
    const { positions } = this.options;
    const position = positions.open(message.organizationId);
    try {
      const taken = await this.work.transaction((repos) => this.take({ message, decoded, position }, repos));
      positions.close(message.organizationId, position);
      if (taken.state.stored.length > 0) positions.stored(message.organizationId, taken.state.stored);
      return taken;
    } catch (error) {
      if (error instanceof CommitUnknown) positions.doubt(message.organizationId, position, error.over);
      else positions.close(message.organizationId, position);
      throw error;
    }
  }

  private async take(uplink: Pick<UplinkState, 'message' | 'decoded' | 'position'>, repos: UplinkRepositories): Promise<{ outcome: UplinkOutcome; state: UplinkState }> {
    const state: UplinkState = { ...uplink, values: {}, samples: [], isComplete: true, binding: undefined, isDiscovery: false, taken: [], refused: [], stored: [] };
    for (const [name, step] of UPLINK_STEPS) {
      const result = step(state, repos);
      const outcome = result instanceof Promise ? await result : result; // a turn for each would cost as much as a statement
      if (outcome !== 'continue') return { outcome: this.stopped(name, state.message, outcome.stop), state };
    }
    return { outcome: { outcome: 'stored' }, state };
  }

  private report({ message, isComplete, samples, refused }: UplinkState): void {
    if (!isComplete) this.options.log.debug({ ...factsOf(message), kept_paths: samples.length }, 'telemetry.paths_dropped');
    if (refused.length > 0) this.options.log.warn({ ...factsOf(message), refused_values: refused.length, ...refusedOf(refused) }, 'telemetry.values_refused');
  }

  private stopped(step: string, message: UplinkMessage, outcome: UplinkOutcome): UplinkOutcome {
    const fields = { ...factsOf(message), step, ...outcome };
    if (outcome.outcome === 'rejected') this.options.log.warn(fields, 'telemetry.uplink_rejected');
    else this.options.log.debug(fields, 'telemetry.uplink_stopped');
    return outcome;
  }
}

/** The first of them; a device has up to 500. */
function refusedOf([first]: readonly MappedValue[]): object {
  return { first_sensor_id: first?.sensorId, first_path: first?.sourcePath, first_value_type: first?.valueType };
}

function factsOf(message: UplinkMessage): object {
  return { organization_id: message.organizationId, connection_id: message.connectionId, ...(message.identity.kind === 'id' && { uplink_id: message.identity.uplinkId }), client_device_id: message.clientDeviceId };
}
