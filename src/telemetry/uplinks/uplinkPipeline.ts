import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { ConnectionRepository, type UplinkMessage, type UplinkOutcome } from '../../connections';
import { CommitOutcomeUnknownError, UnitOfWork, type Database, type Db } from '../../database';
import { UplinkRepository } from '../../devices';
import type { UplinkSample } from '../../executions';
import type { Logger } from '../../kernel/logger';
import type { DecodedUplink, UplinkDecoder } from '../decoding/uplinkDecoder';
import { ConnectorKeyRepository } from '../keys/connectorKeyRepository';
import { LatestReadingRepository } from '../readings/latestReadingRepository';
import type { ReadingSequence } from '../readings/readingSequence';
import { ReadingRepository } from '../readings/readingRepository';
import type { RefusedValue } from '../readings/readings';
import { RefusedValueRepository } from '../readings/refusedValueRepository';
import type { SeriesIdCache } from '../readings/seriesIdCache';
import { SeriesRepository } from '../readings/seriesRepository';
import { DiscoveredDeviceRepository } from './discoveredDeviceRepository';
import { SeenUplinkRepository } from './seenUplinkRepository';
import { DiscoveredDeviceTracker, type UnboundDeviceLimits } from './discoveredDeviceTracker';
import { UplinkCounts } from './uplinkCounts';
import { UPLINK_STEPS, type UplinkRepositories, type UplinkState } from './uplinkSteps';

/** How long the ids of uplinks are stored, milliseconds: 7 days. */
const UPLINK_ID_RETENTION_MS = 7 * 24 * 3600 * 1000;
const PURGE_BATCH_SIZE = 1000;

/** Dependencies of UplinkPipeline. */
interface UplinkPipelineOptions {
  readonly database: Database;
  readonly log: Logger;
  /** Assigns the positions of all readings. */
  readonly positions: ReadingSequence;
  /** The cached series of all sensors. */
  readonly series: SeriesIdCache;
  /**
   * Updates the executions that wait for an uplink of this device, in the transaction of the uplink (`db`). Called once
   * for each new uplink of a bound device.
   */
  readonly evaluateExecutions: (db: Db, uplink: UplinkSample) => Promise<void>;
  /** Decodes payloads of bytes. Without it, they are stored undecoded. */
  readonly decoder?: Pick<UplinkDecoder, 'decode'>;
  /** Default: 1,000 devices with keys and 10,000 listed devices. */
  readonly unboundLimits?: UnboundDeviceLimits;
}

/**
 * Stores uplinks and evaluates executions with them. The readings of an uplink get a position in the order of stored
 * readings; it is open while they are being stored, so that nobody reads beyond it before they are stored.
 */
export class UplinkPipeline {
  private readonly work: UnitOfWork<UplinkRepositories>;
  private readonly discoveredDevices: DiscoveredDeviceTracker;
  /** Counters since the server started. */
  readonly counts = new UplinkCounts();

  constructor(private readonly options: UplinkPipelineOptions) {
    this.discoveredDevices = new DiscoveredDeviceTracker(options.database, options.log, options.unboundLimits);
    this.work = new UnitOfWork(options.database, (db) => ({
      connections: new ConnectionRepository(db),
      devices: new UplinkRepository(db),
      keys: new ConnectorKeyRepository(db),
      seenUplinks: new SeenUplinkRepository(db),
      discovered: new DiscoveredDeviceRepository(db),
      latest: new LatestReadingRepository(db),
      readings: new ReadingRepository(db),
      refused: new RefusedValueRepository(db),
      getSeries: async (organizationId, sensorIds) =>
        await options.series.get(new SeriesRepository(db), organizationId, sensorIds),
      evaluateExecutions: async (uplink) => await options.evaluateExecutions(db, uplink),
    }));
  }

  /** Continues the positions after the last stored one. Call it once before the first uplink. */
  async start(): Promise<void> {
    this.options.positions.startAfter(await new SeriesRepository(this.options.database.db).findLastPosition());
  }

  /**
   * Stores an uplink atomically; resolves when it is on disk. The outcome `rejected` means that it can never be stored:
   * `uplink_id_invalid`, `client_device_id_invalid`, `payload_too_deep` or `payload_not_json`. Throws
   * `connection_not_found`. Also throws `database_unavailable`, `storage_full`, `storage_read_only` or `shutting_down`;
   * the caller may then deliver the uplink again.
   */
  async handle(message: UplinkMessage): Promise<UplinkOutcome> {
    const { results } = this.counts;
    try {
      const outcome = await this.process(message);
      results.add(outcome.outcome);
      return outcome;
    } catch (error) {
      results.add('failed');
      throw error;
    }
  }

  /** Decodes and stores an uplink; a stored one is counted, and its device is recorded as bound or unbound. */
  private async process(message: UplinkMessage): Promise<UplinkOutcome> {
    const startedAt = performance.now();
    this.options.database.disk.assertDiskSpace();
    // Decoding runs before the transaction and before the position is opened, so that no lock is held during a script.
    const decoded = (await this.options.decoder?.decode(message)) ?? { decoded: {}, warnings: [] };
    const { outcome, state } = await this.store(message, decoded);
    if (outcome.outcome !== 'stored') return outcome;
    this.counts.addStored(state, performance.now() - startedAt);
    this.logOmissions(state);
    if (state.binding) this.discoveredDevices.recentDevices.remove(message);
    else await this.discoveredDevices.addUplink(message, state.isDiscovery);
    return outcome;
  }

  /**
   * Deletes uplink ids older than 7 days, data of deleted connections, discovered devices that were bound since, and
   * connector keys of unbound devices beyond the limit. Works in small transactions, so that other work is not delayed.
   * `now`: Unix milliseconds.
   */
  async sweep(now: number): Promise<void> {
    await this.deleteInBatches(({ seenUplinks }) =>
      seenUplinks.deleteBefore(now - UPLINK_ID_RETENTION_MS, PURGE_BATCH_SIZE),
    );
    await this.sweepConnectorKeys();
    await this.sweepDiscoveredDevices();
    this.discoveredDevices.reset();
  }

  /** Deletes the connector keys of deleted connections. */
  private async sweepConnectorKeys(): Promise<void> {
    const { keys } = this.work.repos;
    let connection = await keys.findNextConnection('');
    while (connection) {
      const { connectionId, isDeleted } = connection;
      if (isDeleted) {
        this.discoveredDevices.recentDevices.removeConnection(connectionId);
        await this.deleteInBatches((repos) => repos.keys.deleteOfConnection(connectionId, PURGE_BATCH_SIZE));
      }
      await yieldToEventLoop();
      connection = await keys.findNextConnection(connection.connectionId);
    }
  }

  /** Deletes discovered devices that are bound or whose connection is deleted, and connector keys beyond the limit. */
  private async sweepDiscoveredDevices(): Promise<void> {
    const { discovered } = this.work.repos;
    let found = await discovered.findNextConnection('');
    while (found) {
      const { organizationId, ...connection } = found;
      await this.deleteInBatches((repos) =>
        repos.discovered.deleteObsolete(organizationId, connection, PURGE_BATCH_SIZE),
      );
      await this.discoveredDevices.deleteExcessConnectorKeys(organizationId, connection.connectionId);
      await yieldToEventLoop();
      found = await discovered.findNextConnection(found.connectionId);
    }
  }

  /** Runs one transaction per batch until a batch is not full. */
  private async deleteInBatches(deleteBatch: (repos: UplinkRepositories) => Promise<number>): Promise<void> {
    while ((await this.work.transaction(deleteBatch)) === PURGE_BATCH_SIZE) await yieldToEventLoop();
  }

  /** Stores an uplink in one transaction, then passes its readings to the listeners. */
  private async store(
    message: UplinkMessage,
    { decoded, warnings: decoderWarnings }: DecodedUplink,
  ): Promise<{ outcome: UplinkOutcome; state: UplinkState }> {
    const { positions } = this.options;
    // Opened before the transaction, so that no reader goes beyond the position before its readings are stored.
    const position = positions.open(message.organizationId);
    try {
      const result = await this.work.transaction((repos) =>
        this.runSteps({ message, decoded, decoderWarnings, position }, repos),
      );
      positions.close(message.organizationId, position);
      if (result.state.stored.length > 0) positions.publish(message.organizationId, result.state.stored);
      return result;
    } catch (error) {
      if (error instanceof CommitOutcomeUnknownError)
        positions.markUncertain(message.organizationId, position, error.transactionEnded);
      else positions.close(message.organizationId, position);
      throw error;
    }
  }

  /** Runs the steps in order until one stops. Returns the outcome and the state that the steps have built. */
  private async runSteps(
    uplink: Pick<UplinkState, 'message' | 'decoded' | 'decoderWarnings' | 'position'>,
    repos: UplinkRepositories,
  ): Promise<{ outcome: UplinkOutcome; state: UplinkState }> {
    const state: UplinkState = {
      ...uplink,
      values: {},
      samples: [],
      isComplete: true,
      binding: undefined,
      failure: undefined,
      isDiscovery: false,
      accepted: [],
      refused: [],
      stored: [],
    };
    for (const [name, step] of UPLINK_STEPS) {
      const result = step(state, repos);
      // Awaiting every step would cost as much as a statement.
      const outcome = result instanceof Promise ? await result : result;
      if (outcome === 'continue') continue;
      this.logStop(name, state.message, outcome.stop);
      return { outcome: outcome.stop, state };
    }
    return { outcome: { outcome: 'stored', ...findUnreadable(state) }, state };
  }

  /**
   * Logs what was omitted from a stored uplink: source paths beyond the limit, and values with the wrong type; also
   * what its decoder reported.
   */
  private logOmissions({ message, isComplete, samples, refused, decoded, decoderWarnings }: UplinkState): void {
    const { decodeError } = decoded as { readonly decodeError?: string };
    if (decoderWarnings.length > 0 || decodeError !== undefined)
      this.options.log.debug(
        { ...getLogFields(message), warnings: decoderWarnings, error: decodeError },
        'telemetry.decoder_reported',
      );
    if (!isComplete)
      this.options.log.debug({ ...getLogFields(message), kept_paths: samples.length }, 'telemetry.paths_dropped');
    if (refused.length > 0)
      this.options.log.warn(
        { ...getLogFields(message), refused_values: refused.length, ...describeFirstRefused(refused) },
        'telemetry.values_rejected',
      );
  }

  /** Logs which step stopped an uplink: a rejection as a warning, a duplicate for debugging. */
  private logStop(step: string, message: UplinkMessage, outcome: UplinkOutcome): void {
    const fields = { ...getLogFields(message), step, ...outcome };
    if (outcome.outcome === 'rejected') this.options.log.warn(fields, 'telemetry.uplink_rejected');
    else this.options.log.debug(fields, 'telemetry.uplink_skipped');
  }
}

/** Returns why the connector must report a stored uplink; an empty object if it need not. */
function findUnreadable({ failure, message }: UplinkState): Pick<UplinkOutcome & { outcome: 'stored' }, 'unreadable'> {
  if (failure?.kind === 'unreadable') return { unreadable: failure.reason };
  const isIncomplete = message.payload.kind === 'json' && message.unreadable !== undefined;
  return isIncomplete ? { unreadable: message.unreadable } : {};
}

/** Describes only the first refused value, because a device has up to 500. */
function describeFirstRefused([first]: readonly RefusedValue[]): object {
  return { first_sensor_id: first?.sensorId, first_path: first?.sourcePath, first_value_type: first?.valueType };
}

/** Returns the fields that identify an uplink in the log. */
function getLogFields(message: UplinkMessage): object {
  return {
    organization_id: message.organizationId,
    connection_id: message.connectionId,
    ...(message.identity.kind === 'id' && { uplink_id: message.identity.uplinkId }),
    client_device_id: message.clientDeviceId,
  };
}
