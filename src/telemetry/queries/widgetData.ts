import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Database } from '../../database';
import { DeviceScopeRepository } from '../../devices';
import type { Clock } from '../../kernel/clock';
import type { JsonValue } from '../../kernel/jsonValue';
import type { DeviceScope } from '../../kernel/resourceScope';
import { HOUR_MS } from '../../kernel/timeUnits';
import { HourQueryRepository } from '../readings/hourQueryRepository';
import { getDownsampledBefore, type QueriedSensor, ReadingQueryRepository } from '../readings/readingQueryRepository';
import { type ChosenBuckets, chooseBuckets } from './bucketChoice';
import { canEndWithinHour } from './buckets';
import type { BucketValues } from './bucketValues';
import { aggregateNumbers } from './numberAggregates';
import { StateSeries, StateSize, toBucketStarts } from './stateSeries';

/** A query for the data of widgets. Times are Unix milliseconds; `from` is before `to`. */
export interface WidgetDataQuery {
  readonly sensorIds: readonly string[];
  readonly from: number;
  readonly to: number;
  /** An IANA name. */
  readonly timeZone: string;
  /** The maximum number of points of each sensor, at least 2. */
  readonly maxPoints: number;
  /** The devices that a restricted key may access; undefined: all. */
  readonly keyScope: DeviceScope | undefined;
}

/** The points of one sensor as columns, which have one item for each point or are empty: see SeriesData in the proto. */
export interface SeriesColumns {
  /** Unix milliseconds. */
  readonly times: readonly number[];
  readonly min?: readonly number[];
  readonly max?: readonly number[];
  readonly values?: readonly number[];
  readonly states?: readonly JsonValue[];
  /** 0: the points are single readings. */
  readonly bucketMs: number;
  /** See getDownsampledBefore. */
  readonly downsampledBefore?: number | undefined;
}

/** Why a sensor could not be queried. */
type SeriesError = 'sensor_not_found' | 'states_too_large';

/** The points of one sensor, or why it has none. */
export interface WidgetSeries {
  readonly sensorId: string;
  readonly result: SeriesColumns | SeriesError;
}

type SensorWithSeries = QueriedSensor & { readonly series: number };
type QueriedRange = Omit<WidgetDataQuery, 'sensorIds' | 'keyScope'>;

/**
 * The maximum number of points of a response. Encoding them takes a few milliseconds, in which the event loop does no
 * other work.
 */
const MAX_RESPONSE_POINTS = 20_000;

/** Queries the data of widgets: for each sensor its readings, or buckets of a length that the server chooses. */
export class WidgetData {
  private readonly readings: ReadingQueryRepository;
  private readonly hours: HourQueryRepository;
  private readonly deviceScopes: DeviceScopeRepository;
  private readonly clock: Clock;

  constructor({ database, clock }: { readonly database: Database; readonly clock: Clock }) {
    this.readings = new ReadingQueryRepository(database.db);
    this.hours = new HourQueryRepository(database.db);
    this.deviceScopes = new DeviceScopeRepository(database.db);
    this.clock = clock;
  }

  /** Returns the data of the sensors in the given order. Only one sensor at a time is read. */
  async query(organizationId: string, query: WidgetDataQuery, signal: AbortSignal): Promise<WidgetSeries[]> {
    const { sensorIds } = query;
    const sensors = await this.findSensors(organizationId, query);
    const maxPoints = Math.min(query.maxPoints, Math.floor(MAX_RESPONSE_POINTS / sensorIds.length));
    const reader = new SeriesReader(this.readings, this.hours, { ...query, maxPoints }, this.clock.now());
    const series: WidgetSeries[] = [];
    for (const sensorId of sensorIds) {
      signal.throwIfAborted();
      const sensor = sensors.get(sensorId);
      series.push({ sensorId, result: sensor ? await reader.read(sensor) : 'sensor_not_found' });
      await yieldToEventLoop();
    }
    return series;
  }

  /** Returns the sensors that exist and that the key may access, by id. */
  private async findSensors(
    organizationId: string,
    { sensorIds, keyScope }: WidgetDataQuery,
  ): Promise<ReadonlyMap<string, QueriedSensor>> {
    const sensors = await this.readings.findSensors(organizationId, sensorIds);
    if (!keyScope) return sensors;
    const deviceIds = new Set([...sensors.values()].map(({ deviceId }) => deviceId));
    const accessibleIds = await this.deviceScopes.filterInScope(organizationId, keyScope, deviceIds);
    return new Map([...sensors].filter(([, { deviceId }]) => accessibleIds.has(deviceId)));
  }
}

/** Reads the points of the sensors of one query, one after the other. */
class SeriesReader {
  private readonly stateSize = new StateSize();
  /** The buckets by their minimum length. They are the same for all sensors. */
  private readonly bucketsByMinMs = new Map<number, ChosenBuckets>();

  constructor(
    private readonly readings: ReadingQueryRepository,
    private readonly hours: HourQueryRepository,
    private readonly range: QueriedRange,
    private readonly now: number,
  ) {}

  /** Reads the points of a sensor. */
  async read(sensor: QueriedSensor): Promise<SeriesColumns | SeriesError> {
    const { series, valueType } = sensor;
    if (series === undefined) return { times: [], bucketMs: 0 };
    if (valueType === 'string' || valueType === 'json') return await this.readStates({ ...sensor, series });
    const isBoolean = valueType === 'boolean';
    const downsampledBefore = getDownsampledBefore([sensor], this.range.from);
    const columns =
      (downsampledBefore === undefined ? await this.findNumbers(series, isBoolean) : undefined) ??
      (await this.readNumberBuckets({ ...sensor, series }, downsampledBefore === undefined ? 0 : HOUR_MS));
    return { ...columns, downsampledBefore };
  }

  /** Returns the single numbers of the range; undefined if there are more than the maximum number of points. */
  private async findNumbers(series: number, isBoolean: boolean): Promise<SeriesColumns | undefined> {
    const { maxPoints, ...range } = this.range;
    const samples = await this.readings.listNumbers({ series, ...range }, undefined, maxPoints + 1);
    if (samples.length > maxPoints) return undefined;
    const values = samples.map(({ num }) => num);
    return {
      times: samples.map(({ time }) => time),
      values,
      ...(isBoolean && { states: values.map(Boolean) }),
      bucketMs: 0,
    };
  }

  /** Returns the buckets with numbers. They are at least `minBucketMs` long. */
  private async readNumberBuckets(sensor: SensorWithSeries, minBucketMs: number): Promise<SeriesColumns> {
    const { length, bucketMs, edges } = await this.getBuckets(minBucketMs);
    const { values } = await aggregateNumbers(
      { readings: this.readings, hours: this.hours },
      { ...sensor, useHours: !canEndWithinHour(length) },
      edges,
      this.now,
    );
    return { ...toColumns(edges, values, sensor.valueType === 'boolean'), bucketMs };
  }

  /** Returns the strings or JSON values of the range: all, or the last one of each bucket if there are too many. */
  private async readStates({ sensorId, series }: SensorWithSeries): Promise<SeriesColumns | 'states_too_large'> {
    const states = new StateSeries(this.readings, { sensorId, series }, this.stateSize);
    const heads = await states.findHeads(this.range, this.range.maxPoints);
    if (heads) {
      const columns = await states.load(heads);
      return columns ? { ...columns, bucketMs: 0 } : 'states_too_large';
    }
    const { bucketMs, edges } = await this.getBuckets(0);
    const columns = await states.load(await states.listLastHeads(edges));
    return columns ? { ...columns, times: toBucketStarts(columns.times, edges), bucketMs } : 'states_too_large';
  }

  private async getBuckets(minBucketMs: number): Promise<ChosenBuckets> {
    const buckets = this.bucketsByMinMs.get(minBucketMs) ?? (await chooseBuckets(this.range, minBucketMs));
    this.bucketsByMinMs.set(minBucketMs, buckets);
    return buckets;
  }
}

/** Converts buckets to columns, without the buckets that have no numbers. */
function toColumns(
  edges: readonly number[],
  buckets: readonly (BucketValues | undefined)[],
  isBoolean: boolean,
): Omit<SeriesColumns, 'bucketMs'> {
  const columns = { times: [] as number[], min: [] as number[], max: [] as number[], values: [] as number[] };
  const states: boolean[] = [];
  for (const [index, bucket] of buckets.entries()) {
    if (!bucket) continue;
    const { min = 0, max = 0, last, timeWeightedAverage = 0 } = bucket; // a bucket of numbers has all functions
    columns.times.push(edges[index] as number);
    columns.min.push(min);
    columns.max.push(max);
    columns.values.push(roundAverage(timeWeightedAverage, max - min));
    if (isBoolean) states.push(last !== 0);
  }
  return { ...columns, ...(isBoolean && { states }) };
}

const AVERAGE_DIGITS = 7;
// A larger rounding error would be visible, for example for a counter that increases slowly.
const MAX_ERROR_PER_SPREAD = 1 / 1000;
// The error of the calculation itself, relative to the average.
const CALCULATION_ERROR = 1e-14;

/**
 * Rounds an average to 7 significant digits, which are half as many bytes. Returns the average itself if this would
 * change it by more than a thousandth of `spread`, the difference of the maximum and the minimum.
 */
export function roundAverage(average: number, spread: number): number {
  const rounded = Number(average.toPrecision(AVERAGE_DIGITS));
  const maxError = Math.max(spread * MAX_ERROR_PER_SPREAD, Math.abs(average) * CALCULATION_ERROR);
  return Math.abs(rounded - average) <= maxError ? rounded : average;
}
