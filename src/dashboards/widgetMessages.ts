import type { UpdateWidgetRequest, Widget as WidgetMessage } from '../gen/widget/v2/widget_service';
import type { Violation } from '../kernel/errors';
import { getEtag } from '../kernel/etags';
import { toTimestamp } from '../kernel/timestamps';
import type { WidgetChange } from './contentService';
import type { SeriesRef, Widget, WidgetInput } from './dashboard';
import { findWidgetKind } from './widgetKinds';

/** Converts a widget to its proto message. */
export function widgetToMessage(widget: Widget): WidgetMessage {
  return {
    id: widget.id,
    dashboardId: widget.dashboardId,
    kind: widget.kind,
    title: widget.title,
    options: widget.options,
    series: widget.series.map(convertSeries),
    createdAt: toTimestamp(widget.createdAt),
    updatedAt: toTimestamp(widget.updatedAt),
    etag: getEtag(widget.revision),
    unknownKind: findWidgetKind(widget.kind) === undefined,
  };
}

/** Converts a widget of a request. */
export function widgetFromMessage({
  id,
  kind,
  title,
  options,
  series,
}: Pick<WidgetMessage, 'id' | 'kind' | 'title' | 'options' | 'series'>): WidgetInput {
  return { id, kind, title, options: options ?? {}, series: series.map(convertSeries) };
}

/** Converts the changes of a widget. */
export function widgetChangeFromMessage(request: UpdateWidgetRequest): WidgetChange {
  const { title, options, series, clearSeries } = request;
  return {
    title,
    options,
    series: clearSeries || series.length > 0 ? series.map(convertSeries) : undefined,
  };
}

/** Reports series that are set and cleared at the same time. */
export function checkUpdateRequest({ series, clearSeries }: UpdateWidgetRequest): Violation[] {
  return clearSeries && series.length > 0
    ? [{ field: 'clearSeries', description: 'cannot be combined with series: set only one of them' }]
    : [];
}

/** Converts a reference to a sensor from or to its message: both have the same fields, which get a fixed order. */
export function convertSeries({
  sensorId,
  deviceId,
  deviceVariable,
  missingDevice,
  keyName,
  label,
}: SeriesRef): SeriesRef {
  return { sensorId, deviceId, deviceVariable, missingDevice, keyName, label };
}
