import type { WidgetServiceServer } from '../gen/widget/v2/widget_service';
import { withCheck, type HandlersOf } from '../api/pipeline/handlers';
import type { ContentService } from './contentService';
import { getViewer } from './dashboardHandlers';
import { WIDGET_KINDS } from './widgetKinds';
import { checkUpdateRequest, widgetChangeFromMessage, widgetFromMessage, widgetToMessage } from './widgetMessages';

/** The methods of WidgetService that this module implements; QueryWidgetData is in telemetry. */
type WidgetHandlers = Pick<
  HandlersOf<WidgetServiceServer>,
  'listWidgetKinds' | 'listWidgets' | 'getWidget' | 'createWidget' | 'updateWidget' | 'deleteWidget'
>;

/** Handlers for widgets and their kinds. */
export function widgetHandlers(content: ContentService): WidgetHandlers {
  return {
    listWidgetKinds: async () => ({ kinds: [...WIDGET_KINDS] }),
    listWidgets: async ({ dashboardId }, context) => ({
      widgets: (await content.listWidgets(getViewer(context), dashboardId)).map(widgetToMessage),
    }),
    getWidget: async (request, context) => widgetToMessage(await content.getWidget(getViewer(context), request)),
    createWidget: async ({ dashboardId, ...fields }, context) => {
      const widget = widgetFromMessage({ ...fields, id: '' });
      return widgetToMessage(await content.createWidget(getViewer(context), dashboardId, widget));
    },
    updateWidget: withCheck(checkUpdateRequest, async (request, context) =>
      widgetToMessage(
        await content.updateWidget(getViewer(context), request, widgetChangeFromMessage(request), request.etag),
      ),
    ),
    deleteWidget: async (request, context) => {
      await content.deleteWidget(getViewer(context), request, request.etag);
      return {};
    },
  };
}
