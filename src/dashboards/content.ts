import { isDeepStrictEqual } from 'node:util';
import { isJsonEqual } from '../kernel/canonicalJson';
import { validationFailed } from '../kernel/errors';
import { newId } from '../kernel/ids';
import {
  GRID_COLUMNS,
  MAX_ROW,
  type Dashboard,
  type DashboardContent,
  type Widget,
  type WidgetInput,
  type WidgetPlace,
} from './dashboard';
import { findWidgetKind } from './widgetKinds';

/** Content without widgets. */
export const EMPTY_CONTENT: DashboardContent<never> = {
  widgets: [],
  layout: [],
  variables: [],
  lastSeconds: undefined,
};

/** The change that makes the new content. */
interface ContentChange {
  /** The dashboard as it will be: with its new revision and its time. */
  readonly dashboard: Dashboard;
  /** The field of the request that violations of the layout name. */
  readonly field: string;
  /** Whether new widgets keep their ids: they are those of earlier widgets of this dashboard. Default: false. */
  readonly keepsIds?: boolean;
}

/** New content, and how its widgets differ from the current ones. */
export interface AppliedContent {
  readonly content: DashboardContent<Widget>;
  readonly created: readonly Widget[];
  readonly updated: readonly Widget[];
  readonly deletedIds: readonly string[];
}

/**
 * Applies valid content to the current content: known widgets keep their id, unchanged ones also their etag, new ones
 * get an id, and widgets without a place are placed below all others.
 */
export function applyContent(
  current: DashboardContent<Widget>,
  wanted: DashboardContent<WidgetInput>,
  change: ContentChange,
): AppliedContent {
  const currentById = new Map(current.widgets.map((widget) => [widget.id, widget]));
  const idByName = new Map<string, string>();
  const widgets = wanted.widgets.map((input) => {
    const widget = applyWidget(currentById.get(input.id), input, change);
    if (input.id !== '') idByName.set(input.id, widget.id);
    return widget;
  });
  const places = wanted.layout.map((place) => ({ ...place, widgetId: idByName.get(place.widgetId) ?? place.widgetId }));
  const layout = addMissingPlaces(places, widgets, change.field);
  const ids = new Set(widgets.map(({ id }) => id));
  return {
    content: { ...wanted, widgets: sortByLayout(widgets, layout), layout },
    created: widgets.filter(({ id }) => !currentById.has(id)),
    updated: widgets.filter((widget) => currentById.has(widget.id) && currentById.get(widget.id) !== widget),
    deletedIds: current.widgets.filter(({ id }) => !ids.has(id)).map(({ id }) => id),
  };
}

/** Whether the new content is the same as the current content. */
export function isUnchanged(current: DashboardContent<Widget>, applied: AppliedContent): boolean {
  const { created, updated, deletedIds, content } = applied;
  return (
    created.length + updated.length + deletedIds.length === 0 &&
    isDeepStrictEqual({ ...current, widgets: [] }, { ...content, widgets: [] })
  );
}

/** Returns the widgets in the order of the layout. */
export function sortByLayout(widgets: readonly Widget[], layout: readonly WidgetPlace[]): Widget[] {
  const orderById = new Map(layout.map(({ widgetId }, index) => [widgetId, index]));
  return widgets.toSorted((a, b) => (orderById.get(a.id) ?? 0) - (orderById.get(b.id) ?? 0));
}

/** Returns the content without what the server assigns, as a revision stores it. */
export function toStoredContent({ widgets, ...frame }: DashboardContent<WidgetInput>): DashboardContent<WidgetInput> {
  return {
    widgets: widgets.map(({ id, kind, title, options, series }) => ({ id, kind, title, options, series })),
    ...frame,
  };
}

function applyWidget(current: Widget | undefined, input: WidgetInput, change: ContentChange): Widget {
  const { kind, title, options, series } = input;
  const fields = { kind, title, options, series };
  const { id: dashboardId, revision, updatedAt } = change.dashboard;
  if (!current) {
    const id = change.keepsIds ? input.id : newId();
    return { ...fields, id, dashboardId, revision, createdAt: updatedAt, updatedAt };
  }
  return hasSameFields(current, fields) ? current : { ...current, ...fields, revision, updatedAt };
}

function hasSameFields(current: WidgetInput, { kind, title, options, series }: Omit<WidgetInput, 'id'>): boolean {
  return (
    current.kind === kind &&
    current.title === title &&
    JSON.stringify(current.series) === JSON.stringify(series) &&
    isJsonEqual(current.options, options)
  );
}

/** Adds a place for each widget without one, below all others. `field`: the field of the request that has no row left. */
function addMissingPlaces(
  places: readonly WidgetPlace[],
  widgets: readonly WidgetInput[],
  field: string,
): WidgetPlace[] {
  const placedIds = new Set(places.map(({ widgetId }) => widgetId));
  let row = Math.max(0, ...places.map((place) => place.row + place.height));
  const added = widgets
    .filter(({ id }) => !placedIds.has(id))
    .map(({ id, kind }) => {
      const { width, height } = getDefaultSize(kind);
      const place = { widgetId: id, column: 0, row, width, height };
      row += height;
      return place;
    });
  if (added.some((place) => place.row > MAX_ROW))
    throw validationFailed([
      {
        field,
        description: `has no row left for a new widget below the others (the last row is ${MAX_ROW}): move widgets up first`,
      },
    ]);
  return [...places, ...added];
}

/** Returns the size of a widget that was not placed. */
function getDefaultSize(kind: string): { width: number; height: number } {
  const { minWidth = 4, minHeight = 3 } = findWidgetKind(kind) ?? {};
  return { width: Math.min(GRID_COLUMNS, minWidth * 2), height: minHeight + 1 };
}
