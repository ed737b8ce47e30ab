import { once } from 'node:events';
import { connect as connectHttp2, type ClientHttp2Session } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { AttachRequest } from '../../src/gen/gateway/v1/gateway_service';
import { TcpProxy } from '../brokers/tcpProxy';
import { openAttachFixture, FIELDS, type AttachFixture } from './attachFixture';
import { createHello } from './gatewayClient';

const ENHANCE_YOUR_CALM = 11;

describe('the status of a gateway connection', () => {
  let fixture: AttachFixture;
  let port: number;
  let proxy: TcpProxy;
  let socket: Socket;
  let client: ClientHttp2Session;

  beforeEach(async () => {
    fixture = await openAttachFixture({}, undefined, { keepaliveMs: 100, keepaliveTimeoutMs: 1000 });
    port = Number(fixture.edge.address.split(':')[1]);
    proxy = await TcpProxy.start(port);
  });

  afterEach(async () => {
    client.destroy();
    await proxy.stop();
    await fixture.stop();
  });

  /** Attaches a gateway over a connection that the test controls. `headers`: more headers of the call. */
  async function attach(to = port, headers: Record<string, string> = {}) {
    socket = connect(to, '127.0.0.1');
    client = connectHttp2('http://127.0.0.1', { createConnection: () => socket });
    client.on('error', () => {});
    const stream = client.request({
      ':method': 'POST',
      ':path': '/gateway.v1.GatewayService/Attach',
      'content-type': 'application/grpc',
      te: 'trailers',
      ...FIELDS,
      ...headers,
    });
    stream.on('error', () => {});
    const hello = AttachRequest.encode({ message: createHello({ connectionId: fixture.connection.id }) }).finish();
    const head = Buffer.alloc(5);
    head.writeUInt32BE(hello.length, 1);
    stream.write(Buffer.concat([head, hello]));
    await once(stream, 'data'); // the welcome
    return stream;
  }

  async function getLastError(): Promise<string> {
    await fixture.log.until('gateway.detached');
    return (await fixture.status()).lastError;
  }

  it('says that the gateway answered no pings', async () => {
    await attach(proxy.port);
    proxy.swallow();
    expect(await getLastError()).toMatch(/^connection_lost: no answer to pings for \d+ s: check that the client runs/);
  });

  it('says that the network connection was reset', async () => {
    await attach();
    socket.resetAndDestroy();
    expect(await getLastError()).toBe('connection_lost: the network connection broke (ECONNRESET)');
  });

  it('says that the gateway closed the connection', async () => {
    await attach();
    socket.destroy();
    expect(await getLastError()).toBe('connection_lost: the client closed the connection without ending the call');
  });

  it('says that the gateway closed the connection with an error of HTTP/2', async () => {
    await attach();
    client.goaway(ENHANCE_YOUR_CALM);
    expect(await getLastError()).toBe(
      'connection_lost: the client closed the connection with the HTTP/2 error code 11 (GOAWAY)',
    );
  });

  it('says that the gateway cancelled its stream', async () => {
    const stream = await attach();
    stream.close(8);
    expect(await getLastError()).toBe('cancelled: the gateway cancelled its stream');
  });

  it('says that the deadline of the stream has passed', async () => {
    await attach(port, { 'grpc-timeout': '2S' });
    expect(await getLastError()).toBe(
      'deadline_exceeded: the deadline that the gateway set for its stream has passed: attach without a deadline',
    );
  });
});
