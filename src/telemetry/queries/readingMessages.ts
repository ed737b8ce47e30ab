import {
  type LatestReading as LatestMessage,
  type QueryLatestRequest,
  type QueryRangeRequest,
  type Reading as ReadingMessage,
  ReadingOrder,
  type StreamReadingsRequest,
  type StreamReadingsResponse,
} from '../../gen/sensorquery/v1/sensor_query_service';
import type { Violation } from '../../kernel/errors';
import type { JsonValue } from '../../kernel/jsonValue';
import { fromTimestamp, type TimestampMessage, toTimestamp } from '../../kernel/timestamps';
import type { ValueType } from '../../sensorTemplates';
import type { LastValue } from '../readings/latestQueryRepository';
import { receivedAtOf, type StoredReading } from '../readings/storedReading';
import type { LatestReading } from './latestReadings';
import type { RangeQuery } from './readingRanges';
import type { StreamItem, StreamQuery } from './readingStream';

// A time that comes with a reading counts from here on: a clock that was never set shows an earlier one.
const EARLIEST_OWN_TIME = Date.UTC(2000, 0, 1);

/** What is wrong with a request for the last readings as far as it alone tells. */
export function checkLatest({ sensorIds, deviceIds }: QueryLatestRequest): Violation[] {
  return sensorIds.length + deviceIds.length > 0 ? [] : [{ field: 'sensorIds', description: 'names no sensor, and deviceIds no device; name at least one of either' }];
}

/** What is wrong with a stretch of time. */
export function checkTimes({ from, to }: { readonly from: TimestampMessage | undefined; readonly to: TimestampMessage | undefined }): Violation[] {
  if (!from || !to || fromTimestamp(from) < fromTimestamp(to)) return [];
  return [{ field: 'to', description: 'is not after from; give a later time (both are taken to the millisecond)' }];
}

/** What readings are asked for. */
export function rangeFromMessage(message: QueryRangeRequest): RangeQuery {
  const { sensorIds, from, to, pageSize, pageToken } = message;
  return { sensorIds, from: timeOf(from), to: timeOf(to), order: message.order === ReadingOrder.READING_ORDER_DESC ? 'desc' : 'asc', pageSize, pageToken };
}

/** What readings are watched. */
export function streamFromMessage({ sensorIds, deviceIds, resumeToken }: StreamReadingsRequest): StreamQuery {
  return { sensorIds, deviceIds, resumeToken };
}

/** One reading. */
export function readingToMessage({ sensorId, time, position, valueType, value }: StoredReading): ReadingMessage {
  return { sensorId, time: toTimestamp(time), receivedAt: toTimestamp(receivedAtOf(position)), value: valueToMessage(valueType, value), sequence: position };
}

/** What a sensor showed last. */
export function latestToMessage({ sensorId, deviceId, last, refused }: LatestReading): LatestMessage {
  return {
    sensorId,
    deviceId,
    reading: last && lastToMessage(sensorId, last),
    refused: refused && { count: refused.count, lastTime: toTimestamp(refused.lastAt), lastValue: refused.lastValue, sourcePath: refused.sourcePath },
  };
}

/** One answer of the stream. */
export function streamItemToMessage({ readings, resumeToken }: StreamItem): StreamReadingsResponse {
  return { readings: readings.map(readingToMessage), resumeToken };
}

/** Unix milliseconds of a time that the field rules require. */
export function timeOf(message: TimestampMessage | undefined): number {
  return message ? fromTimestamp(message) : 0;
}

function lastToMessage(sensorId: string, { valueType, value, ownTime, receivedAt }: LastValue): ReadingMessage {
  const received = Math.floor(receivedAt);
  const isUsable = ownTime !== undefined && ownTime >= EARLIEST_OWN_TIME && ownTime <= received;
  return { sensorId, time: toTimestamp(isUsable ? ownTime : received), receivedAt: toTimestamp(received), value: valueToMessage(valueType, value), sequence: 0 };
}

function valueToMessage(valueType: ValueType, value: JsonValue): ReadingMessage['value'] {
  if (valueType === 'json') return { $case: 'json', value };
  if (typeof value === 'string') return { $case: 'text', value };
  if (typeof value === 'boolean') return { $case: 'boolean', value };
  return { $case: valueType === 'integer' ? 'integer' : 'number', value: Number(value) };
}
