import type { Knex } from 'knex';
import type { Db } from '../database';
import type { JsonObject } from '../kernel/jsonValue';
import type { SeriesRef, Widget } from './dashboard';
import { splitIntoBatches } from '../kernel/splitIntoBatches';

interface WidgetRow {
  readonly id: string;
  readonly organization_id: string;
  readonly dashboard_id: string;
  readonly kind: string;
  readonly title: string;
  /** JSON object. */
  readonly options: string;
  /** JSON array of SeriesRef. */
  readonly series: string;
  readonly revision: number;
  readonly created_at: number;
  readonly updated_at: number;
}

/** A sensor or device that a widget shows; see the columns of `widget_sensors`. */
export interface WidgetSensor {
  readonly widgetId: string;
  readonly sensorId: string | undefined;
  readonly deviceId: string | undefined;
  readonly keyName: string | undefined;
}

/** Inserts have at most this many rows, so that a statement stays below the limit of parameters of SQLite. */
const MAX_ROWS_PER_INSERT = 500;

/** Stores the widgets of dashboards, and which sensors and devices they show. */
export class WidgetRepository {
  constructor(private readonly db: Db) {}

  /** Returns the widgets of a dashboard, in no particular order. */
  async list(organizationId: string, dashboardId: string): Promise<Widget[]> {
    const rows = await this.query(organizationId, dashboardId).select<WidgetRow[]>('*');
    return rows.map(widgetFromRow);
  }

  /** Adds widgets to a dashboard. */
  async create(organizationId: string, widgets: readonly Widget[]): Promise<void> {
    if (widgets.length === 0) return;
    await this.db.knex('widgets').insert(
      widgets.map((widget) => ({
        ...formatColumns(widget),
        id: widget.id,
        organization_id: organizationId,
        dashboard_id: widget.dashboardId,
        created_at: widget.createdAt,
      })),
    );
  }

  /** Stores the changeable fields of widgets. */
  async update(organizationId: string, widgets: readonly Widget[]): Promise<void> {
    for (const widget of widgets)
      await this.query(organizationId, widget.dashboardId).where('id', widget.id).update(formatColumns(widget));
  }

  /** Deletes widgets of a dashboard. */
  async delete(organizationId: string, dashboardId: string, ids: readonly string[]): Promise<void> {
    if (ids.length > 0)
      await this.query(organizationId, dashboardId)
        .whereIn('id', [...ids])
        .delete();
  }

  /** Replaces the sensors of these widgets of a dashboard. */
  async setSensors(
    organizationId: string,
    dashboardId: string,
    widgetIds: readonly string[],
    sensors: readonly WidgetSensor[],
  ): Promise<void> {
    const { knex } = this.db;
    await knex('widget_sensors')
      .where({ organization_id: organizationId })
      .whereIn('widget_id', [...widgetIds])
      .delete();
    const rows = sensors.map((sensor, position) => ({
      organization_id: organizationId,
      dashboard_id: dashboardId,
      widget_id: sensor.widgetId,
      position,
      sensor_id: sensor.sensorId ?? null,
      device_id: sensor.deviceId ?? null,
      key_name: sensor.keyName ?? null,
    }));
    for (const batch of splitIntoBatches(rows, MAX_ROWS_PER_INSERT)) await knex('widget_sensors').insert(batch);
  }

  /** Returns the devices of the sensors that the widgets of a dashboard show, by sensor id, as stored. */
  async listSensorDevices(organizationId: string, dashboardId: string): Promise<Map<string, string>> {
    const rows = await this.db
      .knex('widget_sensors as s')
      .join('widgets as w', 'w.id', 's.widget_id')
      .where({ 'w.organization_id': organizationId, 'w.dashboard_id': dashboardId })
      .whereNotNull('s.sensor_id')
      .whereNotNull('s.device_id')
      .select<{ sensor_id: string; device_id: string }[]>('s.sensor_id', 's.device_id');
    return new Map(rows.map(({ sensor_id, device_id }) => [sensor_id, device_id]));
  }

  /** Counts the dashboards with a widget that shows one of these sensors. */
  async countShowingSensors(organizationId: string, sensors: readonly ShownSensor[]): Promise<number> {
    const bySensor = this.queryShown(organizationId).whereIn(
      'sensor_id',
      sensors.map(({ sensorId }) => sensorId),
    );
    const sensorsByDevice = Map.groupBy(sensors, ({ deviceId }) => deviceId);
    const byKey = [...sensorsByDevice].map(([deviceId, ofDevice]) =>
      this.queryShown(organizationId)
        .where('device_id', deviceId)
        .whereIn(
          'key_name',
          ofDevice.map(({ keyName }) => keyName),
        ),
    );
    const rows = (await bySensor.union(byKey)) as unknown[];
    return rows.length;
  }

  /**
   * Counts the dashboards with a widget that shows the device or one of its sensors, or with a variable whose initial
   * value is the device.
   */
  async countShowingDevice(organizationId: string, deviceId: string): Promise<number> {
    const byVariable = this.db
      .knex('dashboards')
      .where('organization_id', organizationId)
      .where('variables', 'like', `%"${deviceId}"%`)
      .select('id');
    const rows = (await this.queryShown(organizationId).where('device_id', deviceId).union([byVariable])) as unknown[];
    return rows.length;
  }

  private queryShown(organizationId: string): Knex.QueryBuilder {
    return this.db.knex('widget_sensors').distinct('dashboard_id').where('organization_id', organizationId);
  }

  private query(organizationId: string, dashboardId: string): Knex.QueryBuilder {
    return this.db.knex('widgets').where({ organization_id: organizationId, dashboard_id: dashboardId });
  }
}

/** A sensor, and what references by device use. */
interface ShownSensor {
  readonly sensorId: string;
  readonly deviceId: string;
  readonly keyName: string;
}

function formatColumns(widget: Widget) {
  return {
    kind: widget.kind,
    title: widget.title,
    options: JSON.stringify(widget.options),
    series: JSON.stringify(widget.series),
    revision: widget.revision,
    updated_at: widget.updatedAt,
  };
}

function widgetFromRow(row: WidgetRow): Widget {
  return {
    id: row.id,
    dashboardId: row.dashboard_id,
    kind: row.kind,
    title: row.title,
    options: JSON.parse(row.options) as JsonObject,
    series: JSON.parse(row.series) as SeriesRef[],
    revision: row.revision,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}
