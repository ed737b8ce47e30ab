import { type ServiceError, Metadata, status } from '@grpc/grpc-js';
import { Any } from '../../src/gen/google/protobuf/any';
import { ErrorInfo, RetryInfo } from '../../src/gen/google/rpc/error_details';
import { Status } from '../../src/gen/google/rpc/status';
import type { Json } from '../../src/cli/call/jsonClient';
import { ReadingSource } from '../../src/cli/readings/readingSource';

const sensors = ['a', 'b', 'c'].map((sensorId) => ({ deviceId: 'd', deviceName: 'D', sensorId, key: 'k', unit: '' }));

function createError(code: status, typeUrl: string, value: Uint8Array): ServiceError {
  const metadata = new Metadata();
  metadata.set(
    'grpc-status-details-bin',
    Buffer.from(
      Status.encode({
        code,
        message: '',
        details: [Any.fromPartial({ typeUrl: `type.googleapis.com/google.rpc.${typeUrl}`, value: Buffer.from(value) })],
      }).finish(),
    ),
  );
  return Object.assign(new Error('failed'), { code, details: 'failed', metadata });
}

const createNotFoundError = (sensor_id: string): ServiceError =>
  createError(
    status.NOT_FOUND,
    'ErrorInfo',
    ErrorInfo.encode(ErrorInfo.fromPartial({ reason: 'sensor_not_found', metadata: { sensor_id } })).finish(),
  );

/**
 * Creates a server that has two readings at the same time and a later one for each sensor, returns one reading per
 * page, and fails before some pages.
 */
async function createSource(
  failures: ReadonlyMap<number, ServiceError>,
  signal = new AbortController().signal,
): Promise<{ source: ReadingSource; reportedDeletions: string[]; deleted: Set<string> }> {
  const reportedDeletions: string[] = [];
  const deleted = new Set<string>();
  let pages = 0;
  const call = async (name: string, request: Json): Promise<Json> => {
    if (!name.endsWith('QueryRange')) return { unitMeasurements: [], sensorTemplates: [] };
    const error = failures.get((pages += 1));
    if (error?.code === status.NOT_FOUND) deleted.add('b');
    const ids = request['sensorIds'] as string[];
    if (error && (error.code !== status.NOT_FOUND || ids.includes('b'))) throw error;
    if (ids.some((id) => deleted.has(id))) throw createNotFoundError('b');
    const all = ids.flatMap((sensorId) =>
      [
        [1, 1],
        [1, 2],
        [2, 3],
      ].map(([second, sequence]) => ({
        sensorId,
        time: `2026-01-01T00:00:0${second}.000Z`,
        sequence: String(sequence),
        number: 1,
      })),
    );
    const left = all.filter(({ time }) => time >= String(request['from']));
    const at = Number(request['pageToken'] || 0);
    return { readings: left.slice(at, at + 1), nextPageToken: at + 1 < left.length ? String(at + 1) : '' };
  };
  const source = await ReadingSource.open(
    { client: { call }, signal, onSensorDeleted: (id) => reportedDeletions.push(id) },
    { deviceIds: [], sensorIds: [], from: Date.UTC(2026, 0, 1), to: Date.UTC(2026, 0, 2) },
  );
  return { source, reportedDeletions, deleted };
}

async function read(source: ReadingSource): Promise<string[]> {
  const read: string[] = [];
  for await (const page of source.readReadings(sensors))
    read.push(...page.map((reading) => `${String(reading['sensorId'])}${String(reading['sequence'])}`));
  return read;
}

describe('the reading export source', () => {
  it.each([
    [1, ['a1', 'a2', 'a3', 'c1', 'c2', 'c3'], ['b']],
    [2, ['a1', 'a2', 'a3', 'c1', 'c2', 'c3'], ['b']],
    [3, ['a1', 'a2', 'a3', 'c1', 'c2', 'c3'], ['b']],
    [5, ['a1', 'a2', 'a3', 'b1', 'c1', 'c2', 'c3'], ['b']],
    [8, ['a1', 'a2', 'a3', 'b1', 'b2', 'b3', 'c1', 'c2', 'c3'], []],
  ])(
    'continues without a sensor that is deleted before page %d, and returns each reading once',
    async (page, expected, named) => {
      const { source, reportedDeletions } = await createSource(new Map([[page, createNotFoundError('b')]]));
      expect(await read(source)).toEqual(expected);
      expect(reportedDeletions).toEqual(named);
    },
  );

  it('continues after the server was overloaded and named a retry delay', async () => {
    const busy = createError(
      status.RESOURCE_EXHAUSTED,
      'RetryInfo',
      RetryInfo.encode({ retryDelay: { seconds: 0, nanos: 1000 } }).finish(),
    );
    const { source } = await createSource(new Map([[2, busy]]));
    expect(await read(source)).toHaveLength(9);
    const large = Object.assign(new Error('too large'), {
      code: status.RESOURCE_EXHAUSTED,
      details: '',
      metadata: new Metadata(),
    });
    await expect(read((await createSource(new Map([[2, large]]))).source)).rejects.toBe(large);
  });

  it('stops immediately while it waits for a retry', async () => {
    const away = createError(status.UNAVAILABLE, 'ErrorInfo', ErrorInfo.encode(ErrorInfo.fromPartial({})).finish());
    const controller = new AbortController();
    const { source } = await createSource(new Map([[2, away]]), controller.signal);
    const reading = read(source);
    setImmediate(() => controller.abort());
    await expect(reading).rejects.toMatchObject({ name: 'AbortError' });
  });
});
