import { createServer, createSecureServer, type Http2SecureServer, type Http2Server } from 'node:http2';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createNetServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askHealth } from '../../src/cli/server/askHealth';
import { writeRunFile } from '../../src/cli/runFile';
import { makeCa, makeServerCertificate } from '../../src/rpc/tls/certificates';
import { plantroomHere } from '../support/commandInProcess';
import { engines } from '../support/engines';
import { startTestApp, type TestApp } from '../support/testApp';

/** Serves on a free port until `work` is done. */
async function withServer(server: Http2Server | Http2SecureServer, work: (address: string) => Promise<void>): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.close();
  }
}

/** A server that answers every call with these bytes. */
function answering(bytes: readonly number[]): Http2Server {
  return createServer().on('stream', (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    stream.end(Buffer.from(bytes));
  });
}

describe('plantroom health', () => {
  let folder: string;
  let app: TestApp;
  const health = async () => await plantroomHere(['health', '--json'], { PLANTROOM_DATA_DIR: folder });
  beforeAll(async () => {
    const [engine] = engines();
    if (!engine) throw new Error('there is no engine');
    folder = mkdtempSync(join(tmpdir(), 'plantroom-health-'));
    app = await startTestApp(engine);
  });
  afterAll(async () => {
    await app.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const runs = (grpc: string, tls: boolean): void => writeRunFile(folder, { grpc, http: null, metrics: null, tls, ca: null, organizationId: null, pid: process.pid, startedAt: '2026-01-01T00:00:00Z' });

  it('fails while no server says that it runs', async () => {
    const ended = await health();
    expect(ended.code).toBe(1);
    expect(JSON.parse(ended.stdout)).toEqual({ state: 'absent', address: null, message: expect.stringContaining(folder) });
  });

  it('asks the server of the data folder over TLS', async () => {
    const { grpc } = app.app.addresses;
    runs(grpc, true);
    const ended = await health();
    expect({ ...ended, stdout: JSON.parse(ended.stdout) as unknown }).toEqual({ code: 0, stdout: { state: 'serving', address: grpc, message: `it serves on ${grpc}` }, stderr: '' });
  });

  it('tells a leftover of a server that was killed from one that runs', async () => {
    const free = createNetServer();
    await new Promise<void>((resolve) => free.listen(0, '127.0.0.1', resolve));
    const { port } = free.address() as AddressInfo;
    await new Promise((resolve) => free.close(resolve));
    runs(`127.0.0.1:${port}`, true);
    const ended = await health();
    expect(ended.code).toBe(1);
    expect(JSON.parse(ended.stdout)).toMatchObject({ state: 'silent', message: expect.stringContaining('ECONNREFUSED') });
  });

  it.each([
    ['one that is stopping', [0, 0, 0, 0, 2, 8, 2], 'not_serving'],
    ['what is no Plantroom', [1, 2, 3], 'silent'],
  ])('does not take %s for healthy', async (_, bytes, state) => {
    await withServer(answering(bytes), async (address) => expect(await askHealth(address, true)).toMatchObject({ state }));
  });

  it('takes a server that asks for a client certificate as serving: it is there', async () => {
    const ca = await makeCa(Date.now());
    const { cert, key } = await makeServerCertificate(ca, ['localhost'], Date.now());
    const server = createSecureServer({ cert, key, ca: ca.cert, requestCert: true, rejectUnauthorized: true });
    await withServer(server, async (address) => expect(await askHealth(address, false)).toMatchObject({ state: 'serving', message: expect.stringContaining('client certificate') }));
  });
});
