import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import {
  DigitalDeviceServiceService,
  type DigitalDevice,
} from '../../../src/gen/digitaldevice/v2/digital_device_service';
import { MediaServiceService, type Media } from '../../../src/gen/media/v1/media_service';
import {
  SensorQueryServiceService,
  type StreamReadingsResponse,
} from '../../../src/gen/sensorquery/v1/sensor_query_service';
import { GrpcServer } from '../../../src/api/grpc/grpcServer';
import { HttpClient } from '../../support/http';
import { FIELDS, startRestEdge, type RestEdge } from './restEdge';

const { getDigitalDevice } = DigitalDeviceServiceService;
const { uploadMedia } = MediaServiceService;
const { streamReadings } = SensorQueryServiceService;
const HEAD = Object.entries({ host: 'x', ...FIELDS })
  .map(([name, value]) => `${name}: ${value}\r\n`)
  .join('');
const MANY = 16 * 1024 * 1024; // more than the buffers of a connection hold

describe.each([
  ['with TLS', true],
  ['without TLS', false],
])('the stop of a server with two ports, %s', (_, isSecure) => {
  let edge: RestEdge;
  let grpc: GrpcServer;
  let client: HttpClient;
  let entered: PromiseWithResolvers<void>;
  let held: PromiseWithResolvers<void>;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    [entered, held] = [Promise.withResolvers(), Promise.withResolvers()];
    edge = await startRestEdge(
      (server) => {
        server.addService(
          { getDigitalDevice },
          {
            getDigitalDevice: async ({ id }) => {
              if (id === 'held') {
                entered.resolve();
                await held.promise;
              }
              return {
                id,
                name: 'x'.repeat(id === 'large' ? MANY : 1),
                sensors: [],
                images: [],
                etag: '"1"',
              } as unknown as DigitalDevice;
            },
          },
        );
        server.addService(
          { uploadMedia },
          {
            uploadMedia: async (requests) => {
              for await (const _ of requests) entered.resolve();
              return {} as Media;
            },
          },
        );
        server.addService(
          { streamReadings },
          {
            streamReadings: async function* (_request, { signal }) {
              yield { readings: [], resumeToken: 'r' } satisfies StreamReadingsResponse;
              entered.resolve();
              await once(signal, 'abort');
            },
          },
        );
      },
      { isSecure },
    );
    grpc = new GrpcServer({ services: edge.server, tls: edge.tls });
    await grpc.start('127.0.0.1:0');
    client = new HttpClient(edge.address, edge.ca, FIELDS);
  });
  afterEach(async () => {
    held.resolve();
    for (const socket of sockets.splice(0)) socket.destroy();
    client.close();
    await edge.stop();
  });

  const stop = async (limitMs: number): Promise<void> => await edge.server.stop(limitMs, [grpc, edge.restServer]);
  const open = async (): Promise<Socket> => {
    const port = Number(edge.address.split(':').at(-1));
    const socket = isSecure
      ? connectTls({
          host: '127.0.0.1',
          port,
          ca: readFileSync(String(edge.ca)),
          servername: 'localhost',
          ALPNProtocols: ['http/1.1'],
        })
      : connect(port, '127.0.0.1');
    sockets.push(socket);
    socket.on('error', () => {});
    await once(socket, isSecure ? 'secureConnect' : 'connect');
    return socket;
  };

  it('closes idle connections at once and ends the streams', async () => {
    const idle = await Promise.all([open(), open()]);
    await client.get('/api/v2/devices/a'); // the client keeps its connection open
    const stream = await open();
    stream.write(`POST /sensorquery.v1.SensorQueryService/StreamReadings HTTP/1.1\r\n${HEAD}content-length: 0\r\n\r\n`);
    await entered.promise;
    const ended = [...idle, stream].map(async (socket) => await once(socket.resume(), 'close'));
    await stop(600_000);
    await Promise.all(ended);
    expect(edge.log.of('rpc.request').map(({ reason }) => reason)).toEqual([undefined, 'shutting_down']);
    await expect(open()).rejects.toThrow(/ECONNREFUSED|aggregate/i);
  });

  it('lets an active call finish and then closes its connection', async () => {
    const answer = client.get('/api/v2/devices/held');
    await entered.promise;
    const stopped = stop(600_000);
    await new Promise(setImmediate);
    held.resolve();
    expect((await answer).status).toBe(200);
    await stopped;
  });

  it('waits for clients that read a response slowly', async () => {
    const slow = await open();
    slow.write(`GET /api/v2/devices/large HTTP/1.1\r\n${HEAD}\r\n`);
    await edge.log.until('rpc.request');
    const stopped = stop(600_000);
    await new Promise(setImmediate);
    let received = 0;
    slow.on('data', (chunk: Buffer) => (received += chunk.length));
    await once(slow, 'close');
    await stopped;
    expect(received).toBeGreaterThan(MANY);
  });

  it('cuts clients that never read when the limit is over', async () => {
    const slow = await open();
    slow.pause().write(`GET /api/v2/devices/large HTTP/1.1\r\n${HEAD}\r\n`);
    await edge.log.until('rpc.request');
    await stop(100);
    await once(slow.resume(), 'close');
  });

  if (!isSecure) return;

  it('ends HTTP/2 sessions when their calls are answered', async () => {
    const session = connectHttp2(`https://${edge.address}`, { ca: readFileSync(String(edge.ca)) });
    const stream = session.request({ ':path': '/api/v2/devices/held', ...FIELDS });
    await entered.promise;
    const stopped = stop(600_000);
    held.resolve();
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
    expect(headers[':status']).toBe(200);
    stream.resume();
    await stopped;
  });

  it.each([
    ['before', 'nobody', 401],
    ['by', 'key', 503],
  ])('does not wait for the body of a request that was rejected %s the stop', async (when, key, status) => {
    const session = connectHttp2(`https://${edge.address}`, { ca: readFileSync(String(edge.ca)) });
    const stream = session.request(
      { ':method': 'POST', ':path': '/api/v2/media', ...FIELDS, 'x-api-key': key, 'content-type': 'image/png' },
      { endStream: false },
    );
    const answered = once(stream, 'response');
    stream.resume().write('x');
    await (when === 'before' ? answered : entered.promise);
    const stopped = stop(600_000);
    const [headers] = (await answered) as [Record<string, unknown>];
    expect(headers[':status']).toBe(status);
    await stopped;
  });

  it('does not wait for handshakes', async () => {
    const socket = connect(Number(edge.address.split(':').at(-1)), '127.0.0.1');
    sockets.push(socket);
    await once(socket, 'connect');
    const closed = once(socket.resume(), 'close');
    await stop(600_000);
    await closed;
  });
});
