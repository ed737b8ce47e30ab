import { createServer, createSecureServer, type Http2SecureServer, type Http2Server } from 'node:http2';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createNetServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { queryHealth } from '../../src/cli/server/askHealth';
import { writeRunFile } from '../../src/cli/runFile';
import { createCa, createServerCertificate } from '../../src/api/tls/certificates';
import { plantroomHere } from '../support/commandInProcess';
import { engines } from '../support/engines';
import { startTestApp, type TestApp } from '../support/testApp';

/** Runs a server on a free port until `work` is done. */
async function withServer(
  server: Http2Server | Http2SecureServer,
  work: (address: string) => Promise<void>,
): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.close();
  }
}

/** Creates a server that answers every call with these bytes. */
function createAnsweringServer(bytes: readonly number[]): Http2Server {
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

  const runs = (grpc: string, tls: boolean): void =>
    writeRunFile(folder, {
      grpc,
      http: null,
      metrics: null,
      tls,
      ca: null,
      organizationId: null,
      pid: process.pid,
      startedAt: '2026-01-01T00:00:00Z',
    });

  it('fails if no server is running', async () => {
    const ended = await health();
    expect(ended.code).toBe(1);
    expect(JSON.parse(ended.stdout)).toEqual({
      state: 'absent',
      address: null,
      message: expect.stringContaining(folder),
    });
  });

  it('checks the server of the data folder over TLS', async () => {
    const { grpc } = app.app.addresses;
    runs(grpc, true);
    const ended = await health();
    expect({ ...ended, stdout: JSON.parse(ended.stdout) as unknown }).toEqual({
      code: 0,
      stdout: { state: 'serving', address: grpc, message: `serving on ${grpc}` },
      stderr: '',
    });
  });

  it('distinguishes the leftovers of a killed server from a running server', async () => {
    const free = createNetServer();
    await new Promise<void>((resolve) => free.listen(0, '127.0.0.1', resolve));
    const { port } = free.address() as AddressInfo;
    await new Promise((resolve) => free.close(resolve));
    runs(`127.0.0.1:${port}`, true);
    const ended = await health();
    expect(ended.code).toBe(1);
    expect(JSON.parse(ended.stdout)).toMatchObject({
      state: 'silent',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });

  it.each([
    ['a server that is shutting down', [0, 0, 0, 0, 2, 8, 2], 'not_serving'],
    ['a server other than Plantroom', [1, 2, 3], 'silent'],
  ])('does not treat %s as healthy', async (_, bytes, state) => {
    await withServer(createAnsweringServer(bytes), async (address) =>
      expect(await queryHealth(address, true)).toMatchObject({ state }),
    );
  });

  it('treats a server that requires a client certificate as running', async () => {
    const ca = await createCa(Date.now());
    const { cert, key } = await createServerCertificate(ca, ['localhost'], Date.now());
    const server = createSecureServer({ cert, key, ca: ca.cert, requestCert: true, rejectUnauthorized: true });
    await withServer(server, async (address) =>
      expect(await queryHealth(address, false)).toMatchObject({
        state: 'serving',
        message: expect.stringContaining('client certificate'),
      }),
    );
  });
});
