import { DomainError } from '../kernel/errors';
import type { JsonObject } from '../kernel/jsonValue';

export const MAX_DASHBOARDS = 1000;
export const MAX_WIDGETS = 60;
/** Different sensors of all widgets of a dashboard. */
export const MAX_SENSORS = 200;
/** The content as JSON, without times and etags. */
export const MAX_CONTENT_BYTES = 524_288;
export const MAX_REVISIONS = 50;
export const GRID_COLUMNS = 24;
export const MAX_ROW = 999;

/** Who may view a dashboard: its owner, or everyone in the organization with `dashboards:read`. */
export type Visibility = 'private' | 'organization';

/** A dashboard without its content. Times are Unix milliseconds. */
export interface Dashboard {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly description: string;
  /** Empty: none. */
  readonly ownerUserId: string;
  readonly visibility: Visibility;
  readonly editorRoleIds: readonly string[];
  /** Starts at 1 and grows with every change. The etag is derived from it. */
  readonly revision: number;
  readonly updatedByUserId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly widgetCount: number;
}

/** A dashboard with its content. */
export interface DashboardWithContent extends Dashboard {
  readonly content: DashboardContent<Widget>;
}

/** What a dashboard shows. `W`: a stored widget, or one of a request. */
export interface DashboardContent<W> {
  /** Of stored content: in the order of the layout. */
  readonly widgets: readonly W[];
  /** In reading order. */
  readonly layout: readonly WidgetPlace[];
  readonly variables: readonly DashboardVariable[];
  /** The initial time range before now; undefined: the default. */
  readonly lastSeconds: number | undefined;
}

/** A widget without what the server assigns. `id` identifies it within its content. */
export interface WidgetInput {
  readonly id: string;
  /** An id of WIDGET_KINDS, or a kind of a newer version. */
  readonly kind: string;
  readonly title: string;
  readonly options: JsonObject;
  readonly series: readonly SeriesRef[];
}

/** A stored widget. Times are Unix milliseconds. */
export interface Widget extends WidgetInput {
  readonly dashboardId: string;
  /** The revision of the dashboard in which the widget last changed. The etag is derived from it. */
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A sensor of a widget. Exactly one of the first four fields is not empty; keyName belongs to all but sensorId. */
export interface SeriesRef {
  readonly sensorId: string;
  readonly deviceId: string;
  /** The name of a device variable of the dashboard. */
  readonly deviceVariable: string;
  /** The name of a device that an import did not find. */
  readonly missingDevice: string;
  readonly keyName: string;
  readonly label: string;
}

/** The place of a widget on a grid of GRID_COLUMNS columns. */
export interface WidgetPlace {
  readonly widgetId: string;
  readonly column: number;
  readonly row: number;
  readonly width: number;
  readonly height: number;
}

/** A value that the viewer chooses. */
export interface DashboardVariable {
  readonly name: string;
  readonly label: string;
  readonly kind: 'device' | 'choice';
  /** Of a device: the normalized keys of which the device must have sensors. */
  readonly keyNames: readonly string[];
  /** Of a choice. */
  readonly choices: readonly string[];
  /** The id of a device, or one of the choices; empty: the viewer chooses. */
  readonly value: string;
}

/** The caller, as far as dashboards are concerned. */
export interface Viewer {
  readonly organizationId: string;
  readonly userId: string;
}

/** Whether the viewer may see that the dashboard exists. */
export function canView(dashboard: Pick<Dashboard, 'visibility' | 'ownerUserId'>, viewer: Viewer): boolean {
  return dashboard.visibility === 'organization' || dashboard.ownerUserId === viewer.userId;
}

/** Creates the error for a caller who may view the dashboard, but not change it. */
export function notEditable(id: string): DomainError {
  return refused(
    id,
    'you may not change this dashboard: only its owner, the owners and admins of the organization and the members of its editor roles may; export it and import it under another name to make your own',
  );
}

/** Creates the error for a caller who may change the dashboard, but not who views and edits it. */
export function notShareable(id: string): DomainError {
  return refused(
    id,
    'you may not change who may view and edit this dashboard: only its owner and the owners and admins of the organization may; ask one of them',
  );
}

function refused(dashboardId: string, message: string): DomainError {
  return new DomainError('permission_denied', 'dashboard_not_editable', message, {
    metadata: { dashboard_id: dashboardId },
  });
}

/** Creates the error for a name that another dashboard of the organization has. */
export function dashboardNameTaken(name: string): DomainError {
  return new DomainError(
    'already_exists',
    'name_taken',
    `a dashboard named ${JSON.stringify(name)} already exists in this organization (names are case-insensitive; it may be private): choose another name`,
  );
}

/** Creates the error for one dashboard too many. */
export function tooManyDashboards(): DomainError {
  return exceeded(
    'too_many_dashboards',
    `the organization already has the maximum of ${MAX_DASHBOARDS} dashboards`,
    'delete one first (private dashboards of other members, which you cannot see, count too)',
  );
}

/** Creates the error for content with too many widgets. */
export function tooManyWidgets(count: number): DomainError {
  return exceeded('too_many_widgets', `a dashboard can have at most ${MAX_WIDGETS} widgets (got ${count})`);
}

/** Creates the error for content with too many different sensors. */
export function tooManySensors(count: number): DomainError {
  return exceeded(
    'too_many_sensors',
    `the widgets of a dashboard can show at most ${MAX_SENSORS} different sensors (got ${count})`,
  );
}

/** Creates the error for content that is too large. */
export function contentTooLarge(bytes: number): DomainError {
  return exceeded(
    'content_too_large',
    `the content of a dashboard can have at most ${MAX_CONTENT_BYTES} bytes as JSON (got ${bytes})`,
  );
}

function exceeded(reason: string, limit: string, remedy = 'use two dashboards'): DomainError {
  return new DomainError('conflict', reason, `${limit}: ${remedy}`);
}
