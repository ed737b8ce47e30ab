import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { CreateDigitalDeviceRequest, DigitalDeviceServiceService, type DigitalDevice } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { DomainError } from '../../src/kernel/errors';
import type { Services } from '../../src/rpc/services';
import { startEdge, type FakeAuthenticator } from '../support/edge';
import { TestClock } from '../support/testClock';
import { FIELDS, startRestEdge } from './restEdge';

// A unary call whose message comes long after its headers, with a key that ends between them.

const { createDigitalDevice } = DigitalDeviceServiceService;
const KEYS = [['known by heart', 'key'], ['that has to be read', 'slow-key']] as const;
const BODY = '{"name": "Valve"}';

let clock: TestClock;
let made: number;
beforeEach(() => {
  clock = new TestClock();
  made = 0;
});

const add = (server: Services): void =>
  server.add({ createDigitalDevice }, {
    createDigitalDevice: async () => {
      made += 1;
      return { id: 'd', name: 'Valve', sensors: [], images: [], etag: '"1"' } as unknown as DigitalDevice;
    },
  });

/** Resolves when a key was asked for. */
const asked = async (keys: FakeAuthenticator): Promise<void> =>
  await new Promise((resolve) => {
    keys.authenticate = (key) => {
      setImmediate(resolve);
      return Object.getPrototypeOf(keys).authenticate.call(keys, key);
    };
  });

const later = (keys: FakeAuthenticator, key: string, isRevoked: boolean): void => {
  clock.advance(60_000);
  if (isRevoked) keys.ended.set(key, new DomainError('unauthenticated', 'api_key_revoked', 'the key was revoked'));
};

describe.each(KEYS)('a key %s', (_, key) => {
  it.each([['still passes', false, 200, 1], ['is refused once it was revoked', true, 401, 0]])('%s when the body comes, over HTTP', async (_what, isRevoked, status, times) => {
    const edge = await startRestEdge(add, { clock });
    edge.keys.add(key);
    const enters = asked(edge.keys);
    const socket = connect(Number(edge.address.split(':').at(-1)), '127.0.0.1');
    const answer = text(socket);
    const lines = Object.entries({ host: 'x', ...FIELDS, 'x-api-key': key, 'content-type': 'application/json', 'content-length': BODY.length, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`POST /api/v2/devices HTTP/1.1\r\n${lines.join('')}\r\n${BODY.slice(0, 5)}`);
    await enters;
    later(edge.keys, key, isRevoked);
    socket.write(BODY.slice(5));
    expect(await answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect([made, edge.keys.counted]).toEqual([times, 1]); // a late message is no second call
    await edge.stop();
  });

  it.each([['still passes', false, '0', 1], ['is refused once it was revoked', true, '16', 0]])('%s when the message comes, over gRPC', async (_what, isRevoked, status, times) => {
    const edge = await startEdge(add, { clock });
    edge.keys.add(key);
    const enters = asked(edge.keys);
    const session = connectHttp2(`http://${edge.address}`);
    const stream = session.request({ ':method': 'POST', ':path': createDigitalDevice.path, 'content-type': 'application/grpc', te: 'trailers', ...FIELDS, 'x-api-key': key });
    const told = new Promise<unknown>((resolve) => stream.on('response', (head) => head['grpc-status'] && resolve(head['grpc-status'])).on('trailers', (tail) => resolve(tail['grpc-status'])));
    await enters;
    later(edge.keys, key, isRevoked);
    const message = createDigitalDevice.requestSerialize(CreateDigitalDeviceRequest.fromPartial({ name: 'Valve' }));
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    stream.resume();
    stream.end(Buffer.concat([head, message]));
    expect(await told).toBe(status);
    expect([made, edge.keys.counted]).toEqual([times, 1]); // a late message is no second call
    const closed = once(session, 'close');
    session.close();
    await closed;
    await edge.stop();
  });
});
