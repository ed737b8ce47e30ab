import type { Db } from '../../src/database';
import { createDashboardRepositories } from '../../src/dashboards';
import { engines, type TestDatabase } from '../support/engines';
import { getPlan } from '../support/queryPlan';

const VIEWER = { organizationId: 'o', userId: 'u' };

describe.each(engines())('the queries of dashboards on $name', ({ name, createDatabase }) => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(async () => await database.drop());

  const repos = createDashboardRepositories;
  test.each<[string, (db: Db) => Promise<unknown>, readonly string[]]>([
    ['find', async (db) => await repos(db).dashboards.find('o', 'd'), ['dashboards', 'widgets_dashboard']],
    ['count', async (db) => await repos(db).dashboards.count('o'), ['dashboards_name']],
    ['hasName', async (db) => await repos(db).dashboards.hasName('o', 'd'), ['dashboards_name']],
    ['listRevisions', async (db) => await repos(db).dashboards.listRevisions(VIEWER, []), ['dashboards_name']],
    [
      'list of those that show a sensor',
      async (db) => {
        const sensor = { sensorId: 's', deviceId: 'd', keyName: 'k' };
        return await repos(db).dashboards.list(VIEWER, { foldedSearch: 'a', sensor }, 'a', 50);
      },
      ['widget_sensors_sensor', 'widget_sensors_device'],
    ],
    ['widgets', async (db) => await repos(db).widgets.list('o', 'd'), ['widgets_dashboard']],
    [
      'the devices of sensors',
      async (db) => await repos(db).widgets.listSensorDevices('o', 'd'),
      ['widgets_dashboard', 'widget_sensors'],
    ],
    [
      'dashboards that show sensors',
      async (db) =>
        await repos(db).widgets.countShowingSensors('o', [
          { sensorId: 's', deviceId: 'd', keyName: 'k' },
          { sensorId: 't', deviceId: 'e', keyName: 'k' },
        ]),
      ['widget_sensors_sensor', 'widget_sensors_device'],
    ],
    [
      'dashboards that show a device',
      async (db) => await repos(db).widgets.countShowingDevice('o', 'd'),
      ['widget_sensors_device', 'dashboards_name'],
    ],
    ['revisions', async (db) => await repos(db).revisions.list('o', 'd'), ['dashboard_revisions']],
    ['a revision', async (db) => await repos(db).revisions.find('o', 'd', 1), ['dashboard_revisions']],
    ['sensors by id', async (db) => await repos(db).site.findSensors('o', ['s']), ['sensors']],
    ['sensors of devices', async (db) => await repos(db).site.listSensorsOfDevices('o', ['d']), ['sensors_device']],
    ['devices by id', async (db) => await repos(db).site.findDevices('o', ['d']), ['digital_devices_id']],
    [
      'devices by clientDeviceId',
      async (db) => await repos(db).site.findByClientDeviceIds('o', ['c', 'e']),
      ['physical_devices_client'],
    ],
    ['commands of devices', async (db) => await repos(db).site.listCommands('o', ['d', 'e']), ['commands_']],
    ['connections by name', async (db) => await repos(db).site.findConnectionNames('o', ['c']), ['connections_']],
    ['dashboards by id', async (db) => await repos(db).dashboards.findMany('o', ['d', 'e']), ['widgets_dashboard']],
    ['a starter', async (db) => await repos(db).starters.findDashboardId('o', 'k'), ['starter_dashboards']],
    ['roles by id', async (db) => await repos(db).roles.findExistingIds('o', ['r', 's']), ['roles']],
    ['starters', async (db) => await repos(db).starters.list('o'), ['starter_dashboards']],
    ['connections of starters', async (db) => await repos(db).starters.listConnections('o', 50), ['connections_page']],
    [
      'devices of a connection',
      async (db) => await repos(db).site.listDevicesOfConnection('o', 'c', 50),
      ['physical_devices_client'],
    ],
    ['the oldest devices', async (db) => await repos(db).site.listDevices('o', 50), ['digital_devices_']],
    ['models', async (db) => await repos(db).starters.listModels('o', 50), ['physical_devices_profile']],
    [
      'devices of a model',
      async (db) => await repos(db).site.listDevicesOfModel('o', 'm', 20),
      ['device_profiles_model', 'physical_devices_profile'],
    ],
  ])('%s uses its indexes', async (_name, query, indexes) => {
    const plan = await getPlan(database.database, query);
    for (const index of indexes) expect(plan).toContain(index);
    // `m` are the device models, a catalogue of a few thousand rows.
    if (name === 'sqlite') expect(plan.replaceAll('"SCAN m"', '')).not.toMatch(/"SCAN (?!\(subquery|CONSTANT)\w/);
    else expect(plan).not.toContain('Seq Scan');
  });
});
