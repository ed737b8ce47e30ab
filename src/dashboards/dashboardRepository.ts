import type { Knex } from 'knex';
import { normalizeForSearch, onUniqueViolation, whereContains, type Db } from '../database';
import {
  dashboardNameTaken,
  type Dashboard,
  type DashboardContent,
  type DashboardVariable,
  type Viewer,
  type Visibility,
  type WidgetPlace,
} from './dashboard';
import { readInParts } from './readInParts';

interface DashboardRow {
  readonly id: string;
  readonly organization_id: string;
  readonly name: string;
  readonly description: string;
  readonly owner_user_id: string;
  readonly visibility: Visibility;
  /** JSON array. */
  readonly editor_role_ids: string;
  readonly revision: number;
  readonly updated_by_user_id: string;
  readonly created_at: number;
  readonly updated_at: number;
  readonly widget_count: number | string;
}

interface ContentRow {
  /** JSON array of WidgetPlace. */
  readonly layout: string;
  /** JSON array of DashboardVariable. */
  readonly variables: string;
  readonly last_seconds: number | null;
}

const COLUMNS: readonly string[] = [
  'd.id',
  'd.organization_id',
  'd.name',
  'd.description',
  'd.owner_user_id',
  'd.visibility',
  'd.editor_role_ids',
  'd.revision',
  'd.updated_by_user_id',
  'd.created_at',
  'd.updated_at',
];

// Correlated, so that it counts only the widgets of the dashboards of the page.
const WIDGET_COUNT =
  '(select count(*) from widgets as n where n.organization_id = d.organization_id and n.dashboard_id = d.id) as widget_count';

/** The content without its widgets, which have their own table. */
export type ContentFrame = Omit<DashboardContent<never>, 'widgets'>;

/** A dashboard, and its content without the widgets. */
export interface FramedDashboard {
  readonly dashboard: Dashboard;
  readonly frame: ContentFrame;
}

/** A list filter; undefined and empty values do not filter. */
interface DashboardFilter {
  /** After normalizeForSearch. */
  readonly foldedSearch: string;
  /** Only dashboards with a widget that shows this sensor. */
  readonly sensor: SensorOfDevice | undefined;
}

/** A sensor, and what other references to it use. */
export interface SensorOfDevice {
  readonly sensorId: string;
  /** Undefined if the sensor does not exist (any more). */
  readonly deviceId: string | undefined;
  readonly keyName: string | undefined;
}

/** A row of the watch: which revision a dashboard has. */
export interface DashboardRevisionState {
  readonly id: string;
  readonly revision: number;
  readonly updatedByUserId: string;
}

/** Stores dashboards without their widgets. Names are assumed to be clean. */
export class DashboardRepository {
  constructor(private readonly db: Db) {}

  /** Throws `name_taken`. */
  async create(organizationId: string, dashboard: Dashboard, frame: ContentFrame): Promise<void> {
    const row = {
      id: dashboard.id,
      organization_id: organizationId,
      owner_user_id: dashboard.ownerUserId,
      created_at: dashboard.createdAt,
      ...formatColumns(dashboard),
      ...formatFrame(frame),
    };
    await this.runUnique(dashboard.name, async () => await this.db.knex('dashboards').insert(row));
  }

  /** Stores all changeable fields, and the frame of the content if it is set. Throws `name_taken`. */
  async update(organizationId: string, dashboard: Dashboard, frame?: ContentFrame): Promise<void> {
    const columns = { ...formatColumns(dashboard), ...(frame && formatFrame(frame)) };
    await this.runUnique(
      dashboard.name,
      async () => await this.query(organizationId).where('d.id', dashboard.id).update(columns),
    );
  }

  /** Deletes a dashboard with its widgets and revisions. */
  async delete(organizationId: string, id: string): Promise<void> {
    await this.query(organizationId).where('d.id', id).delete();
  }

  /** Finds a dashboard of the organization, whoever may view it. */
  async find(organizationId: string, id: string): Promise<FramedDashboard | undefined> {
    const row = await this.query(organizationId)
      .where('d.id', id)
      .first<(DashboardRow & ContentRow) | undefined>([
        ...this.listColumns(),
        'd.layout',
        'd.variables',
        'd.last_seconds',
      ]);
    return row && { dashboard: dashboardFromRow(row), frame: frameFromRow(row) };
  }

  /** Returns those of these dashboards that exist, whoever may view them, without their content. */
  async findMany(organizationId: string, ids: readonly string[]): Promise<Dashboard[]> {
    const rows = await readInParts(
      ids,
      async (part) => await this.query(organizationId).whereIn('d.id', part).select<DashboardRow[]>(this.listColumns()),
    );
    return rows.map(dashboardFromRow);
  }

  /** Same as `find`, and locks the dashboard with its content until the end of the transaction. */
  async lock(organizationId: string, id: string): Promise<FramedDashboard | undefined> {
    await this.db.dialect.lockForUpdate(this.query(organizationId).where('d.id', id).select('d.id'));
    return await this.find(organizationId, id);
  }

  /** Lists at most `limit` dashboards that the viewer may view, by name, after the normalized name `after`. */
  async list(viewer: Viewer, filter: DashboardFilter, after: string | undefined, limit: number): Promise<Dashboard[]> {
    const nameColumn = this.db.dialect.byBytes('d.name_folded');
    const query = this.queryViewable(viewer)
      .orderByRaw(nameColumn)
      .limit(limit)
      .select<DashboardRow[]>(this.listColumns());
    if (after !== undefined) void query.whereRaw(`${nameColumn} > ?`, [after]);
    if (filter.foldedSearch !== '') whereContains(query, 'd.name_folded', filter.foldedSearch);
    if (filter.sensor) void query.whereIn('d.id', this.queryShowing(viewer.organizationId, filter.sensor));
    return (await query).map(dashboardFromRow);
  }

  /** Returns the current revision of each dashboard that the viewer may view. `ids`: only these; empty: all. */
  async listRevisions(viewer: Viewer, ids: readonly string[]): Promise<DashboardRevisionState[]> {
    const query = this.queryViewable(viewer).select<DashboardRevisionState[]>({
      id: 'd.id',
      revision: 'd.revision',
      updatedByUserId: 'd.updated_by_user_id',
    });
    if (ids.length > 0) void query.whereIn('d.id', [...ids]);
    return await query;
  }

  /** Counts all dashboards of the organization. */
  async count(organizationId: string): Promise<number> {
    const row = await this.query(organizationId).count<{ n: number | string }[]>('* as n').first();
    return Number(row?.n ?? 0);
  }

  /** Returns whether a dashboard of the organization has this name (case-insensitive). */
  async hasName(organizationId: string, name: string): Promise<boolean> {
    const row = await this.query(organizationId)
      .where('d.name_folded', normalizeForSearch(name))
      .first<{ id: string } | undefined>('d.id');
    return row !== undefined;
  }

  private listColumns(): (string | Knex.Raw)[] {
    return [...COLUMNS, this.db.knex.raw(WIDGET_COUNT)];
  }

  private query(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('dashboards as d').where('d.organization_id', organizationId);
  }

  private queryViewable({ organizationId, userId }: Viewer): Knex.QueryBuilder {
    return this.query(organizationId).whereRaw('(d.visibility = ? or d.owner_user_id = ?)', ['organization', userId]);
  }

  /** Selects the ids of the dashboards with a widget that shows the sensor. */
  private queryShowing(organizationId: string, { sensorId, deviceId, keyName }: SensorOfDevice): Knex.QueryBuilder {
    const query = this.db
      .knex('widget_sensors as w')
      .where({ 'w.organization_id': organizationId, 'w.sensor_id': sensorId })
      .select('w.dashboard_id');
    if (deviceId === undefined || keyName === undefined) return query;
    return query.union(
      this.db
        .knex('widget_sensors as v')
        .where({ 'v.organization_id': organizationId, 'v.device_id': deviceId, 'v.key_name': keyName })
        .select('v.dashboard_id'),
    );
  }

  private async runUnique(name: string, write: () => Promise<unknown>): Promise<void> {
    await onUniqueViolation(this.db.dialect, () => dashboardNameTaken(name), write);
  }
}

function formatColumns(dashboard: Dashboard) {
  return {
    name: dashboard.name,
    name_folded: normalizeForSearch(dashboard.name),
    description: dashboard.description,
    visibility: dashboard.visibility,
    editor_role_ids: JSON.stringify(dashboard.editorRoleIds),
    revision: dashboard.revision,
    updated_by_user_id: dashboard.updatedByUserId,
    updated_at: dashboard.updatedAt,
  };
}

function formatFrame({ layout, variables, lastSeconds }: ContentFrame) {
  return {
    layout: JSON.stringify(layout),
    variables: JSON.stringify(variables),
    last_seconds: lastSeconds ?? null,
  };
}

function frameFromRow(row: ContentRow): ContentFrame {
  return {
    layout: JSON.parse(row.layout) as WidgetPlace[],
    variables: JSON.parse(row.variables) as DashboardVariable[],
    lastSeconds: row.last_seconds ?? undefined,
  };
}

function dashboardFromRow(row: DashboardRow): Dashboard {
  return {
    id: row.id,
    organizationId: row.organization_id,
    name: row.name,
    description: row.description,
    ownerUserId: row.owner_user_id,
    visibility: row.visibility,
    editorRoleIds: JSON.parse(row.editor_role_ids) as string[],
    revision: row.revision,
    updatedByUserId: row.updated_by_user_id,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    widgetCount: Number(row.widget_count),
  };
}
