import type { SensorQueryServiceServer } from '../../gen/sensorquery/v1/sensor_query_service';
import { optionalTimestamp } from '../../kernel/timestamps';
import { checked, type HandlersOf } from '../../rpc/handlers';
import { aggregateFromMessage, aggregatesToMessages, checkAggregate } from './aggregateMessages';
import { checkLatest, checkTimes, latestToMessage, rangeFromMessage, readingToMessage, streamFromMessage, streamItemToMessage } from './readingMessages';
import type { SensorQueries } from './sensorQueries';

/** Questions about readings. */
export function sensorQueryHandlers({ latest, ranges, aggregates, stream }: SensorQueries): HandlersOf<SensorQueryServiceServer> {
  return {
    queryLatest: checked(checkLatest, async (request, context) => {
      const sensors = await latest.query(context.organizationId, request);
      return { sensors: sensors.map(latestToMessage) };
    }),
    queryRange: checked((request) => checkTimes(request), async (request, context) => {
      const { readings, nextPageToken, thinnedBefore } = await ranges.query(context.organizationId, rangeFromMessage(request), context.signal);
      return { readings: readings.map(readingToMessage), nextPageToken, thinnedBefore: optionalTimestamp(thinnedBefore) };
    }),
    queryAggregate: checked(checkAggregate, async (request, context) => {
      const page = await aggregates.query(context.organizationId, aggregateFromMessage(request), context.signal);
      return { sensors: aggregatesToMessages(page), nextPageToken: page.nextPageToken, thinnedBefore: optionalTimestamp(page.thinnedBefore) };
    }),
    streamReadings: async function* (request, context) {
      for await (const item of stream.watch(context.organizationId, { ...streamFromMessage(request), reach: context.principal.reach?.devices }, context.signal)) yield streamItemToMessage(item);
    },
  };
}
