import {
  type LatestReading as LatestMessage,
  type QueryLatestRequest,
  type QueryRangeRequest,
  type Reading as ReadingMessage,
  ReadingOrder,
  type StreamReadingsRequest,
  type StreamReadingsResponse,
  TimeSource,
} from '../../gen/sensorquery/v1/sensor_query_service';
import type { Violation } from '../../kernel/errors';
import type { JsonValue } from '../../kernel/jsonValue';
import { fromTimestamp, type TimestampMessage, toTimestamp } from '../../kernel/timestamps';
import { truncate } from '../../kernel/truncate';
import type { ValueType } from '../../sensorTemplates';
import type { LastValue } from '../readings/latestQueryRepository';
import { getReadingTime } from '../readings/readings';
import { getReceivedAt, type ReadingTimeSource, type StoredReading } from '../readings/storedReading';
import type { LatestReading } from './latestReadings';
import type { RangeQuery } from './readingRanges';
import type { StreamItem, StreamQuery } from './readingStreams';

/** The wire value of each time source. */
const TIME_SOURCES: Readonly<Record<ReadingTimeSource, TimeSource>> = {
  device: TimeSource.TIME_SOURCE_DEVICE,
  gateway: TimeSource.TIME_SOURCE_GATEWAY,
  network: TimeSource.TIME_SOURCE_NETWORK,
  received: TimeSource.TIME_SOURCE_RECEIVED,
};

/** Checks that a request names at least one sensor or device. */
export function checkLatest({ sensorIds, deviceIds }: QueryLatestRequest): Violation[] {
  return sensorIds.length + deviceIds.length > 0
    ? []
    : [{ field: 'sensorIds', description: 'is empty, and so is deviceIds: name at least one sensor or device' }];
}

/** Checks that `from` is before `to`. */
export function checkTimes({
  from,
  to,
}: {
  readonly from: TimestampMessage | undefined;
  readonly to: TimestampMessage | undefined;
}): Violation[] {
  if (!from || !to || fromTimestamp(from) < fromTimestamp(to)) return [];
  return [{ field: 'to', description: 'must be later than from (both have a precision of milliseconds)' }];
}

/** Converts a range request to a query. */
export function rangeFromMessage(message: QueryRangeRequest): RangeQuery {
  const { sensorIds, from, to, pageSize, pageToken } = message;
  return {
    sensorIds,
    from: getTime(from),
    to: getTime(to),
    order: message.order === ReadingOrder.READING_ORDER_DESC ? 'desc' : 'asc',
    pageSize,
    pageToken,
  };
}

/** Converts a stream request to a query. */
export function streamFromMessage({ sensorIds, deviceIds, resumeToken }: StreamReadingsRequest): StreamQuery {
  return { sensorIds, deviceIds, resumeToken };
}

/** Converts a reading. */
export function readingToMessage({
  sensorId,
  time,
  timeSource,
  position,
  valueType,
  value,
}: StoredReading): ReadingMessage {
  return {
    sensorId,
    time: toTimestamp(time),
    receivedAt: toTimestamp(getReceivedAt(position)),
    value: valueToMessage(valueType, value),
    sequence: position,
    retained: undefined,
    timeSource: timeSourceToMessage(timeSource),
  };
}

/** The warnings of a decoder per sensor. They are few and short, because a response has up to 2,000 sensors. */
const MAX_WARNINGS = 3;
const MAX_WARNING_LENGTH = 100;

/** Converts the latest reading of a sensor, with the statistics of its refused values. */
export function latestToMessage({
  sensorId,
  deviceId,
  last,
  refused,
  noValue,
  decoderWarnings,
}: LatestReading): LatestMessage {
  return {
    sensorId,
    deviceId,
    reading: last && lastValueToMessage(sensorId, last),
    refused: refused && {
      count: refused.count,
      lastTime: toTimestamp(refused.lastAt),
      lastValue: refused.lastValue,
      sourcePath: refused.sourcePath,
    },
    noValue: noValue && { time: toTimestamp(Math.floor(noValue.receivedAt)), reason: noValue.reason },
    decoderWarnings: decoderWarnings && {
      time: toTimestamp(Math.floor(decoderWarnings.receivedAt)),
      warnings: decoderWarnings.warnings.slice(0, MAX_WARNINGS).map((text) => truncate(text, MAX_WARNING_LENGTH)),
    },
  };
}

/** Converts an item of a stream to a response. */
export function streamItemToMessage({ readings, resumeToken }: StreamItem): StreamReadingsResponse {
  return { readings: readings.map(readingToMessage), resumeToken };
}

/** Converts a timestamp to Unix milliseconds. The field rules require it, so the 0 for a missing one is never used. */
export function getTime(message: TimestampMessage | undefined): number {
  return message ? fromTimestamp(message) : 0;
}

/**
 * Converts a latest value. `sequence` is the position of a reading in the order in which readings are stored; it is 0
 * here, because latest values are stored without it. The receive time may have a fraction that only defines an order.
 */
function lastValueToMessage(sensorId: string, last: LastValue): ReadingMessage {
  const { valueType, value, receivedAt } = last;
  const { time, timeSource } = getReadingTime(last);
  return {
    sensorId,
    time: toTimestamp(time),
    receivedAt: toTimestamp(Math.floor(receivedAt)),
    value: valueToMessage(valueType, value),
    sequence: 0,
    retained: last.isRetained || undefined,
    timeSource: timeSourceToMessage(timeSource),
  };
}

function timeSourceToMessage(timeSource: ReadingTimeSource | undefined): TimeSource {
  return timeSource === undefined ? TimeSource.TIME_SOURCE_UNSPECIFIED : TIME_SOURCES[timeSource];
}

/** Selects the field of the message by the value type; strings of any type are sent as text. */
function valueToMessage(valueType: ValueType, value: JsonValue): ReadingMessage['value'] {
  if (valueType === 'json') return { $case: 'json', value };
  if (typeof value === 'string') return { $case: 'text', value };
  if (typeof value === 'boolean') return { $case: 'boolean', value };
  return { $case: valueType === 'integer' ? 'integer' : 'number', value: Number(value) };
}
