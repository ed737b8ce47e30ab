import type { SensorQueryServiceServer } from '../../gen/sensorquery/v1/sensor_query_service';
import { optionalTimestamp } from '../../kernel/timestamps';
import { withCheck, type HandlersOf } from '../../api/pipeline/handlers';
import { aggregateFromMessage, aggregatesToMessages, checkAggregate } from './aggregateMessages';
import {
  checkLatest,
  checkTimes,
  latestToMessage,
  rangeFromMessage,
  readingToMessage,
  streamFromMessage,
  streamItemToMessage,
} from './readingMessages';
import type { SensorQueries } from './sensorQueries';

/** Handlers for queries of readings. */
export function sensorQueryHandlers({
  latest,
  ranges,
  aggregates,
  stream,
}: SensorQueries): HandlersOf<SensorQueryServiceServer> {
  return {
    queryLatest: withCheck(checkLatest, async (request, context) => {
      const sensors = await latest.query(context.organizationId, request);
      return { sensors: sensors.map(latestToMessage) };
    }),
    queryRange: withCheck(
      (request) => checkTimes(request),
      async (request, context) => {
        const { readings, nextPageToken, downsampledBefore } = await ranges.query(
          context.organizationId,
          rangeFromMessage(request),
          context.signal,
        );
        return {
          readings: readings.map(readingToMessage),
          nextPageToken,
          downsampledBefore: optionalTimestamp(downsampledBefore),
        };
      },
    ),
    queryAggregate: withCheck(checkAggregate, async (request, context) => {
      const page = await aggregates.query(context.organizationId, aggregateFromMessage(request), context.signal);
      return {
        sensors: aggregatesToMessages(page),
        nextPageToken: page.nextPageToken,
        downsampledBefore: optionalTimestamp(page.downsampledBefore),
      };
    }),
    streamReadings: async function* (request, context) {
      for await (const item of stream.watch(
        context.organizationId,
        { ...streamFromMessage(request), keyScope: context.principal.resourceScope?.devices },
        context.signal,
      ))
        yield streamItemToMessage(item);
    },
  };
}
