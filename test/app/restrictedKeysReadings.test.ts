import type { ClientReadableStream } from '@grpc/grpc-js';
import {
  QueryAggregateRequest,
  QueryLatestRequest,
  type QueryLatestResponse,
  QueryRangeRequest,
  type QueryRangeResponse,
  StreamReadingsRequest,
  type StreamReadingsResponse,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { StreamScopeRepository } from '../../src/telemetry/readings/streamScopeRepository';
import { call, callFails, headers } from '../support/edge';
import { engines } from '../support/engines';
import { getPlan } from '../support/queryPlan';
import { type LimitedSite, readUntil, startLimitedSite, streamFails } from './limitedSite';

const NOBODY = '0190a0a0-0000-7000-8000-000000000001';
const shows =
  (value: number) =>
  (answer: StreamReadingsResponse): boolean =>
    answer.resumeToken !== '' && answer.readings.some((reading) => reading.value?.value === value);
const listValues = (answers: readonly StreamReadingsResponse[]): unknown[] =>
  answers.flatMap(({ readings }) => readings.map(({ value }) => value?.value));
const span = { from: { seconds: 0, nanos: 0 }, to: { seconds: 4_000_000_000, nanos: 0 } };

describe.each(engines())('readings for keys that are limited to devices, on $name', (engine) => {
  let site: LimitedSite;
  let limited: Record<string, string>;
  beforeAll(async () => {
    site = await startLimitedSite(engine);
    limited = await site.key({ deviceIds: [site.named.id], connectionIds: [site.connections[0]] });
  });
  afterAll(async () => await site.stop());

  const open = (
    fields: Partial<StreamReadingsRequest> = {},
    caller = limited,
  ): ClientReadableStream<StreamReadingsResponse> =>
    site.readings.streamReadings(StreamReadingsRequest.fromPartial(fields), headers(caller));

  it('include the devices inside; others seem not to exist', async () => {
    const { readings, named, bound, outside, connections } = site;
    for (const [device, connectionId] of [
      [named, connections[1]],
      [bound, connections[0]],
      [outside, connections[1]],
    ] as const)
      await site.send(connectionId, device, 1);
    const latest = readings.queryLatest.bind(readings);
    const { sensors } = await call<QueryLatestRequest, QueryLatestResponse>(
      latest,
      QueryLatestRequest.fromPartial({ sensorIds: [named.sensorId], deviceIds: [bound.id] }),
      limited,
    );
    expect(sensors.map(({ sensorId, reading }) => [sensorId, reading?.value?.value])).toEqual([
      [named.sensorId, 1],
      [bound.sensorId, 1],
    ]);
    const range = await call<QueryRangeRequest, QueryRangeResponse>(
      readings.queryRange.bind(readings),
      QueryRangeRequest.fromPartial({ sensorIds: [bound.sensorId], ...span }),
      limited,
    );
    expect(range.readings).toHaveLength(1);

    const sensorIds = (id: string): { sensorIds: string[] } => ({ sensorIds: [named.sensorId, id] });
    const failingReads = [
      async (id: string) => await callFails(latest, QueryLatestRequest.fromPartial(sensorIds(id)), limited),
      async (id: string) =>
        await callFails(
          readings.queryRange.bind(readings),
          QueryRangeRequest.fromPartial({ ...sensorIds(id), ...span }),
          limited,
        ),
      async (id: string) =>
        await callFails(
          readings.queryAggregate.bind(readings),
          QueryAggregateRequest.fromPartial({ ...sensorIds(id), ...span, bucket: { count: 1000, unit: 5 } }),
          limited,
        ),
      async (id: string) => await streamFails(open(sensorIds(id))),
      async (id: string) => await callFails(latest, QueryLatestRequest.fromPartial({ deviceIds: [id] }), limited),
      async (id: string) => await streamFails(open({ deviceIds: [id] })),
    ];
    for (const [at, readFails] of failingReads.entries()) {
      const id = at < 4 ? outside.sensorId : outside.id;
      const [refused, unknown] = [await readFails(id), await readFails(NOBODY)];
      expect(refused.reason).toBe(at < 4 ? 'sensor_not_found' : 'device_not_found');
      expect([refused.code, refused.reason, refused.message.replaceAll(id, 'ID'), refused.fields]).toEqual([
        unknown.code,
        unknown.reason,
        unknown.message.replaceAll(NOBODY, 'ID'),
        unknown.fields,
      ]);
    }
  });

  it('are streamed without a filter, live and after a resume, without revealing others', async () => {
    const { named, bound, outside, connections } = site;
    const answers = await readUntil(open(), shows(12), async () => {
      await site.send(connections[1], outside, 9);
      await site.send(connections[1], named, 11);
      await site.send(connections[1], outside, 9);
      await site.send(connections[0], bound, 12);
    });
    expect(listValues(answers)).toEqual([11, 12]);
    expect(answers.slice(1).every(({ readings }) => readings.length > 0)).toBe(true);
    const resumeToken = answers[0]?.resumeToken ?? '';
    const again = await readUntil(open({ resumeToken }), ({ readings }) =>
      readings.some((reading) => reading.value?.value === 12),
    );
    expect(listValues(again)).toEqual([11, 12]);
    // A token of a key that sees everything reveals nothing more.
    const [first] = await readUntil(open({}, site.all), () => true);
    await site.send(connections[1], outside, 9);
    await site.send(connections[0], bound, 13);
    expect(
      listValues(
        await readUntil(open({ resumeToken: first?.resumeToken ?? '' }), ({ readings }) => readings.length > 0),
      ),
    ).toEqual([13]);
  });

  it.each([
    ['all that is inside', (): Partial<StreamReadingsRequest> => ({})],
    ['its device', (): Partial<StreamReadingsRequest> => ({ deviceIds: [site.bound.id, site.named.id] })],
    ['its sensor', (): Partial<StreamReadingsRequest> => ({ sensorIds: [site.bound.sensorId, site.named.sensorId] })],
  ])('of a device that moves away leave a running stream of %s at once and return with it', async (_name, request) => {
    const { bound, named, connections } = site;
    const answers = await readUntil(open(request()), shows(24), async () => {
      await site.send(connections[0], bound, 21);
      await site.move(bound, connections[1]);
      await site.send(connections[1], bound, 22);
      await site.send(connections[1], named, 23);
      await site.move(bound, connections[0]);
      await site.send(connections[0], bound, 24);
    });
    // Readings in transit during the move may appear; later ones must not.
    expect(listValues(answers).filter((value) => value !== 21)).toEqual([23, 24]);
  });

  it('are searched among the devices of a connection by an index', async () => {
    const deviceScope = { ids: new Set<string>(), connectionIds: new Set(['c']) };
    const plan = await getPlan(site.server.database.database, async (db) => {
      const repository = new StreamScopeRepository(db);
      for await (const _ of repository.listAccessibleDevices('org-1', deviceScope)) break;
      await repository.listByDevices('org-1', ['d']);
    });
    expect(plan).toContain('physical_devices_client');
    expect(plan).toContain('sensors_device');
    expect(plan).not.toMatch(/SCAN \w+"|Seq Scan|USE TEMP B-TREE|"Sort/);
  });
});
