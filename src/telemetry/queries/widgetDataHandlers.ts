import type { QueryWidgetDataRequest, SeriesData, WidgetServiceServer } from '../../gen/widget/v2/widget_service';
import type { Violation } from '../../kernel/errors';
import { optionalTimestamp } from '../../kernel/timestamps';
import { withCheck, type HandlersOf } from '../../api/pipeline/handlers';
import { getTimeZoneViolations } from './aggregateMessages';
import { checkTimes, getTime } from './readingMessages';
import type { WidgetData, WidgetSeries } from './widgetData';

const DEFAULT_MAX_POINTS = 500;

/** The handler of QueryWidgetData, the only method of WidgetService that reads readings. */
export function widgetDataHandlers(widgetData: WidgetData): Pick<HandlersOf<WidgetServiceServer>, 'queryWidgetData'> {
  return {
    queryWidgetData: withCheck(checkWidgetData, async (request, { organizationId, principal, signal }) => {
      const { sensorIds, from, to, timeZone, maxPoints = DEFAULT_MAX_POINTS } = request;
      const series = await widgetData.query(
        organizationId,
        {
          sensorIds,
          from: getTime(from),
          to: getTime(to),
          timeZone: timeZone === '' ? 'UTC' : timeZone,
          maxPoints,
          keyScope: principal.resourceScope?.devices,
        },
        signal,
      );
      return { series: series.map(seriesToMessage) };
    }),
  };
}

/** Checks the rules of a request that the field rules do not cover. */
function checkWidgetData(request: QueryWidgetDataRequest): Violation[] {
  return [...checkTimes(request), ...getTimeZoneViolations(request.timeZone)];
}

/** Converts the points of a sensor, or its error. */
function seriesToMessage({ sensorId, result }: WidgetSeries): SeriesData {
  const columns = typeof result === 'string' ? { times: [], bucketMs: 0 } : result;
  const { times, min = [], max = [], values = [], states = [], bucketMs, downsampledBefore } = columns;
  return {
    sensorId,
    times: [...times],
    min: [...min],
    max: [...max],
    values: [...values],
    states: [...states],
    bucketMs,
    downsampledBefore: optionalTimestamp(downsampledBefore),
    error: typeof result === 'string' ? result : '',
  };
}
