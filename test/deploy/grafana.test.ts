import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { type LimitedSite, startLimitedSite } from '../app/limitedSite';
import { sqliteOnly } from '../support/engines';
import { HttpClient, type JsonObject } from '../support/http';

/** A query of the Infinity plugin, as far as the examples use it. */
interface Target {
  readonly url: string;
  readonly url_options: { readonly method: string; readonly params: readonly { key: string; value: string }[] };
  readonly root_selector: string;
  readonly columns: readonly { selector: string; text: string; type: string }[];
}

const read = (path: string): string => readFileSync(join(__dirname, '..', '..', path), 'utf8');
const dashboard = JSON.parse(read('deploy/grafana/plantroom-readings.json')) as {
  panels: { title: string; targets: Target[]; datasource: { uid: string; type: string } }[];
  templating: { list: { name: string; query: string; current: { value: string } }[] };
};
const source = (
  parse(read('deploy/grafana/plantroom-readings-datasource.yaml')) as { datasources: JsonObject[] }
).datasources[0] as {
  uid: string;
  type: string;
  url: string;
  jsonData: Record<string, string>;
  secureJsonData: Record<string, string>;
};

/** Returns the values that a user can choose for a variable of the dashboard. */
function listChoices(variable: string): string[] {
  return dashboard.templating.list.find(({ name }) => name === variable)?.query.split(',') ?? [];
}

/** Returns the value at a path such as `sensors.0.buckets`. */
function select(value: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((parent, name) => (parent as Record<string, unknown> | undefined)?.[name], value);
}

describe.each(sqliteOnly())('the dashboard of readings for Grafana, on $name', (engine) => {
  let site: LimitedSite;
  let http: HttpClient;
  beforeAll(async () => {
    site = await startLimitedSite(engine);
    http = new HttpClient(site.server.app.addresses.http as string, site.server.app.ca);
    for (const value of [20.5, 21.5]) await site.send(site.connections[0], site.bound, value);
  });
  afterAll(async () => {
    http.close();
    await site.stop();
  });

  /** Sends the request of a target, as Grafana does with these values of the variables of the dashboard. */
  async function query({ url, url_options: { method, params } }: Target, chosen: Readonly<Record<string, string>> = {}) {
    const values: Record<string, string> = {
      ...Object.fromEntries(dashboard.templating.list.map(({ name, current }) => [name, current.value])),
      sensor: site.bound.sensorId,
      '__from:date:iso': new Date(Date.now() - 7 * 86_400_000).toISOString(),
      '__to:date:iso': new Date(Date.now() + 60_000).toISOString(),
      ...chosen,
    };
    const environment: Record<string, string> = {
      $INFINITY_API_KEY: site.all['x-api-key'] ?? '',
      $INFINITY_ORGANIZATION_ID: site.all['x-organization-id'] ?? '',
    };
    const headers = Object.fromEntries(
      [1, 2].map((number) => [
        source.jsonData[`httpHeaderName${number}`] ?? '',
        environment[source.secureJsonData[`httpHeaderValue${number}`] ?? ''] ?? '',
      ]),
    );
    const parameters = new URLSearchParams(
      params.map(({ key, value }): [string, string] => [
        key,
        value.replaceAll(/\$\{([^}]+)\}/g, (_, name: string) => values[name] ?? ''),
      ]),
    );
    return await http.send(method, `${url}?${parameters}`, { headers });
  }

  it('accepts every bucket that can be chosen', async () => {
    const target = dashboard.panels.flatMap(({ targets }) => targets).find(({ url }) => url.endsWith(':aggregate'));
    const [units, counts] = [listChoices('unit'), listChoices('count')];
    expect([units.length, counts.length]).toEqual([4, 5]);
    for (const unit of units)
      for (const count of counts) {
        const { status } = await query(target as Target, { unit, count });
        expect([unit, count, status]).toEqual([unit, count, 200]);
      }
  });

  it.each(dashboard.panels.map((panel) => [panel.title, panel] as const))(
    'shows data in the panel %s',
    async (_title, { targets, datasource }) => {
      expect(datasource).toEqual({ uid: source.uid, type: source.type });
      for (const target of targets) {
        const { root_selector, columns } = target;
        const { status, json } = await query(target);
        expect([status, json['code']]).toEqual([200, undefined]);
        const [row] = select(json, root_selector) as unknown[];
        for (const { selector, type } of columns) {
          const value = select(row, selector);
          expect([selector, typeof value]).toEqual([selector, type === 'number' ? 'number' : 'string']);
          expect(type === 'timestamp' ? Date.parse(value as string) : value).not.toBeNaN();
        }
      }
    },
  );
});
