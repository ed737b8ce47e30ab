import { gunzipSync } from 'node:zlib';
import {
  type QueryWidgetDataRequest,
  QueryWidgetDataRequest as Request,
  type QueryWidgetDataResponse,
  WidgetServiceClient,
} from '../../src/gen/widget/v2/widget_service';
import { toTimestamp } from '../../src/kernel/timestamps';
import { call } from '../support/edge';
import { engines } from '../support/engines';
import { type HttpAnswer, HttpClient, parseHttpError } from '../support/http';
import { type LimitedSite, startLimitedSite } from './limitedSite';

const UNKNOWN = '0190a0a0-0000-7000-8000-000000000001';
const HOUR = 3_600_000;
const YEAR_HOURS = 365 * 24;
const ROW_BATCH_SIZE = 90;
const PATH = '/api/v2/widgets:query';

describe.each(engines())('QueryWidgetData of the complete server on $name', (engine) => {
  let site: LimitedSite;
  let http: HttpClient;
  let widgets: WidgetServiceClient;
  beforeAll(async () => {
    site = await startLimitedSite(engine);
    const { app } = site.server;
    http = new HttpClient(app.addresses.http as string, app.ca);
    widgets = site.server.client(WidgetServiceClient);
  });
  afterAll(async () => {
    http.close();
    await site.stop();
  });

  const post = async (body: unknown, headers: Record<string, string> = site.all): Promise<HttpAnswer> =>
    await http.send('POST', PATH, { headers, body });

  it('returns the same over gRPC and REST, also for a range that ends now', async () => {
    const { bound, connections } = site;
    for (const value of [20.5, 21.5]) await site.send(connections[0], bound, value);
    const [from, to] = [Date.now() - HOUR, Date.now()];
    const { series } = await call<QueryWidgetDataRequest, QueryWidgetDataResponse>(
      widgets.queryWidgetData.bind(widgets),
      Request.fromPartial({ sensorIds: [bound.sensorId], from: toTimestamp(from), to: toTimestamp(to) }),
      site.all,
    );
    expect(series).toMatchObject([{ sensorId: bound.sensorId, values: [20.5, 21.5], bucketMs: 0, error: '' }]);
    const answer = await post({
      sensorIds: [bound.sensorId],
      from: new Date(from).toISOString(),
      to: new Date(to).toISOString(),
    });
    expect([answer.status, answer.json]).toEqual([
      200,
      {
        series: [
          {
            sensorId: bound.sensorId,
            times: series[0]?.times,
            min: [],
            max: [],
            values: [20.5, 21.5],
            states: [],
            bucketMs: 0,
            error: '',
          },
        ],
      },
    ]);
  });

  it('reports each sensor outside a restricted key like one that does not exist', async () => {
    const { named, bound, outside, connections } = site;
    await site.send(connections[1], named, 1);
    await site.send(connections[1], outside, 2);
    const limited = await site.key({ deviceIds: [named.id], connectionIds: [connections[0]] });
    const ask = async (sensorIds: readonly string[]): Promise<unknown> => {
      const { status, json } = await post(
        { sensorIds, from: '2020-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' },
        limited,
      );
      return [status, json];
    };
    const [status, { series }] = (await ask([outside.sensorId, named.sensorId, bound.sensorId])) as [
      number,
      { series: { error: string; values: number[] }[] },
    ];
    expect(status).toBe(200);
    expect(series.map(({ error, values }) => [error, values.length > 0])).toEqual([
      ['sensor_not_found', false],
      ['', true],
      ['', true],
    ]);
    const unknown = JSON.stringify(await ask([UNKNOWN])).replaceAll(UNKNOWN, 'ID');
    expect(JSON.stringify(await ask([outside.sensorId])).replaceAll(outside.sensorId, 'ID')).toBe(unknown);
  });

  it('rejects an invalid request over REST', async () => {
    const answer = await post({
      sensorIds: [UNKNOWN],
      from: '2026-01-01T00:00:00Z',
      to: '2026-01-01T00:00:00Z',
      timeZone: 'Mars/Olympus',
    });
    expect(parseHttpError(answer)).toMatchObject({ status: 400, code: 'validation_failed' });
    expect(answer.body.toString()).toMatch(/must be later than from.*must be an IANA time zone/);
  });

  it('sends a downsampled year of a sensor in less than 60 KB, with the peak of one minute', async () => {
    const { outside, server, connections } = site;
    const { knex } = server.database.database.db;
    await site.send(connections[1], outside, 2); // creates the series
    const from = Date.UTC(2024, 0, 1);
    const { number } = await knex('reading_series')
      .where({ sensor_id: outside.sensorId })
      .first<{ number: number }>('number');
    const rows = Array.from({ length: YEAR_HOURS }, (_, index) => {
      // Hashes, because regular values would compress too well.
      const [first, last, swing] = [7919, 104_729, 1_299_709].map((prime) => ((index * prime) % 10_007) / 10_007);
      const value = 20 + 10 * Math.sin(index / 24) + (first ?? 0);
      const max = index === 4321 ? 95 : Math.round((value + (last ?? 0)) * 10) / 10;
      return {
        series: number,
        hour: from + index * HOUR,
        count: 60,
        sum: 60 * value,
        min: Math.round((value - (swing ?? 0)) * 10) / 10,
        max,
        first_time: from + index * HOUR,
        first: value,
        last_time: from + index * HOUR + 59 * 60_000,
        last: value,
        area: value * 59 * 60_000,
      };
    });
    for (let start = 0; start < rows.length; start += ROW_BATCH_SIZE)
      await knex('reading_hours').insert(rows.slice(start, start + ROW_BATCH_SIZE));
    const until = from + YEAR_HOURS * HOUR;
    await knex('reading_series').where({ number }).update({ summed_until: until, thinned_until: until });
    const answer = await post(
      {
        sensorIds: [outside.sensorId],
        from: '2024-01-01T00:00:00Z',
        to: new Date(until).toISOString(),
        maxPoints: 4000,
      },
      { ...site.all, 'accept-encoding': 'gzip' },
    );
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, 'gzip']);
    expect(answer.body.length).toBeLessThan(60_000);
    const { series } = JSON.parse(gunzipSync(answer.body).toString()) as {
      series: { max: number[]; times: number[]; bucketMs: number; downsampledBefore: string }[];
    };
    expect(series[0]).toMatchObject({ bucketMs: 3 * HOUR, downsampledBefore: new Date(until).toISOString() });
    expect(series[0]?.times).toHaveLength(YEAR_HOURS / 3);
    expect(Math.max(...(series[0]?.max ?? []))).toBe(95);
  });
});
