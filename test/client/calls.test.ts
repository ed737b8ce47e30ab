import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { rootCertificates } from 'node:tls';
import {
  createPlantroomClient,
  isPlantroomError,
  PlantroomError,
  watchExecutions,
  type ClientOptions,
  type PlantroomClient,
} from '../../src/client';
import { ExecutionState } from '../../src/client/gen/actuator_command/v2/actuator_command_service';
import { HealthCheckResponse_ServingStatus } from '../../src/client/gen/grpc/health/v1/health';
import { createPaddedJpeg } from '../media/sampleImages';
import { engines, type TestEngine } from '../support/engines';
import { startTestApp, type TestApp } from '../support/testApp';
import { CuttingProxy } from './cuttingProxy';

const UNKNOWN_ID = '0190a0a0-0000-7000-8000-000000000009';
const UUID = /^[0-9a-f-]{36}$/;

describe('plantroom-client calls', () => {
  let server: TestApp;
  let proxy: CuttingProxy;
  let client: PlantroomClient;
  const clients: PlantroomClient[] = [];
  const openClient = (options: Partial<ClientOptions> = {}): PlantroomClient => {
    const defaults = {
      address: `localhost:${port()}`,
      apiKey: server.key,
      organizationId: server.organizationId,
      ca: readFileSync(server.app.ca ?? ''),
    };
    const openedClient = createPlantroomClient({ ...defaults, retry: { attempts: 3, firstPauseMs: 20 }, ...options });
    clients.push(openedClient);
    return openedClient;
  };
  const port = (): number => Number(server.app.addresses.grpc.split(':').at(-1));
  beforeAll(async () => {
    server = await startTestApp(engines()[0] as TestEngine);
    proxy = new CuttingProxy(port());
    await proxy.start();
    client = openClient();
  });
  afterAll(async () => {
    for (const one of clients) one.close();
    await proxy.stop();
    await server.stop();
  });

  /** Creates a device with a command. */
  const target = async (name: string): Promise<{ id: string; commandId: string }> => {
    const connection = await client.connections.createConnection({ connectorId: 'gateway', name });
    const { id } = await client.devices.createDigitalDevice({
      name,
      physicalDevice: { clientDeviceId: name, connectionId: connection.id },
    });
    const command = await client.commands.createCommand({
      id,
      command: { name: 'Open', mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' },
    });
    return { id, commandId: command.id };
  };

  test('reach every service', async () => {
    const before = Date.now() - 1000;
    const device = await client.devices.createDigitalDevice({ name: 'Boiler' });
    expect(device.createdAt?.getTime()).toBeGreaterThan(before);
    expect((await client.devices.listDigitalDevices({ search: 'boil' })).devices.map(({ id }) => id)).toEqual([
      device.id,
    ]);
    expect((await client.commands.listCommands({ id: device.id })).commands).toEqual([]);
    expect((await client.sensorTemplates.listUnitMeasurements({})).unitMeasurements.length).toBeGreaterThan(3);
    expect((await client.connections.listConnections({})).connections).toEqual([]);
    expect((await client.connectors.listConnectors({})).connectors.map(({ id }) => id)).toContain('gateway');
    expect((await client.readings.queryLatest({ deviceIds: [device.id] })).sensors).toEqual([]);
    expect((await client.organizations.getOrganization({ id: server.organizationId })).id).toBe(server.organizationId);
    expect((await client.access.whoAmI({})).apiKey?.organizationId).toBe(server.organizationId);
    expect((await client.userProfile.getPersonalUser({})).id).toMatch(UUID);
    expect((await client.health.check({ service: '' })).status).toBe(HealthCheckResponse_ServingStatus.SERVING);
    expect((await captureError(client.media.getMedia({ id: UNKNOWN_ID }))).reason).toBe('media_not_found');
    for await (const { status } of client.health.watch({ service: '' })) {
      expect(status).toBe(HealthCheckResponse_ServingStatus.SERVING);
      break;
    }
  });

  test('fail with the error of the server', async () => {
    const missing = await captureError(client.devices.getDigitalDevice({ id: UNKNOWN_ID }, { requestId: 'mine-1' }));
    expect(missing).toBeInstanceOf(PlantroomError);
    expect(missing).toMatchObject({
      name: 'PlantroomError',
      status: 'NOT_FOUND',
      reason: 'device_not_found',
      requestId: 'mine-1',
      violations: [],
      retryAfterMs: undefined,
    });
    expect(missing.message).not.toContain('NOT_FOUND');
    expect([
      isPlantroomError(missing, 'device_not_found'),
      isPlantroomError(missing, 'command_not_found'),
      isPlantroomError(new Error('other')),
    ]).toEqual([true, false, false]);
    const invalid = await captureError(
      client.devices.createDigitalDevice({ name: '', physicalDevice: { clientDeviceId: '', connectionId: '' } }),
    );
    expect(invalid).toMatchObject({
      status: 'INVALID_ARGUMENT',
      reason: 'validation_failed',
      requestId: expect.stringMatching(UUID) as string,
    });
    expect(invalid.violations.map(({ field }) => field)).toEqual([
      'name',
      'physicalDevice.clientDeviceId',
      'physicalDevice.connectionId',
    ]);
    const { key } = await server.newKey(server.organizationId, { scopes: ['users:read'] });
    expect(await captureError(openClient({ apiKey: key }).devices.listDigitalDevices({}))).toMatchObject({
      status: 'PERMISSION_DENIED',
      reason: 'insufficient_scope',
      metadata: { required_scope: 'devices:read' },
    });
    const invalidRequest = { limit: 'many' } as unknown as { limit: number };
    expect(await captureError(client.devices.listDigitalDevices(invalidRequest))).toMatchObject({
      status: 'INVALID_ARGUMENT',
      reason: 'request_invalid',
      message: expect.stringContaining('ListDigitalDevices') as string,
    });
  });

  test('suggest a cause if no Plantroom server responds', async () => {
    const cases: [Partial<ClientOptions>, RegExp][] = [
      [{ ca: rootCertificates[0] ?? '' }, /not signed by the given CA/],
      [{ address: `localhost:${await findClosedPort()}` }, /^localhost:\d+ refused the connection/],
      [{ address: 'nobody.invalid:50051' }, /name of nobody.invalid:50051 cannot be resolved/],
    ];
    for (const [options, hint] of cases) {
      const error = await captureError(
        openClient({ ...options, retry: { attempts: 1 } }).devices.listDigitalDevices({}),
      );
      expect(error).toMatchObject({
        status: 'UNAVAILABLE',
        reason: '',
        message: expect.stringMatching(hint) as string,
        requestId: expect.stringMatching(UUID) as string,
      });
    }
    // A watch is not retried if it never worked and waiting cannot help.
    expect((await captureError(watchExecutions(openClient({ ca: rootCertificates[0] ?? '' })).next())).message).toMatch(
      /not signed by the given CA/,
    );
    const insecure = createPlantroomClient({
      address: `localhost:${port()}`,
      apiKey: server.key,
      organizationId: server.organizationId,
      insecure: true,
      retry: { attempts: 1 },
    });
    clients.push(insecure);
    const error = await captureError(insecure.devices.listDigitalDevices({}));
    expect(error).toMatchObject({
      status: 'UNAVAILABLE',
      message: expect.stringContaining('set ca instead of insecure: true') as string,
    });
    expect(`${error.message}${error.stack}`).not.toContain(server.key);
  });

  test('request the API key again each time', async () => {
    let key = 'plr_wrong';
    const rotating = openClient({ apiKey: () => key });
    expect((await captureError(rotating.access.whoAmI({}))).status).toBe('UNAUTHENTICATED');
    key = server.key;
    await rotating.access.whoAmI({});
    key = `${server.key}\n`;
    const error = await captureError(rotating.access.whoAmI({}));
    expect(error).toMatchObject({
      status: 'INVALID_ARGUMENT',
      reason: 'options_invalid',
      violations: [{ field: 'apiKey' }],
    });
    expect(error.message).not.toContain(server.key);
    await expect(async () => await rotating.connections.watchConnectionStatus({}).next()).rejects.toMatchObject({
      reason: 'options_invalid',
    });
  });

  test('end by signal and deadline, including streams', async () => {
    const ending = new AbortController();
    const watch = client.commands.watchExecutions({}, { signal: ending.signal });
    const pending = captureError(drain(watch));
    ending.abort(new Error('enough'));
    expect(await pending).toMatchObject({ status: 'CANCELLED', reason: '', cause: new Error('enough') });
    expect(await watch.next()).toEqual({ done: true, value: undefined });
    expect(await captureError(drain(client.commands.watchExecutions({}, { deadlineMs: 50 })))).toMatchObject({
      status: 'DEADLINE_EXCEEDED',
      requestId: expect.stringMatching(UUID) as string,
    });
    const left = client.commands.watchExecutions({});
    await left.next();
    const waiting = left.next();
    await left.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
    const unread = client.commands.watchExecutions({});
    await unread.return?.();
    expect(await unread.next()).toEqual({ done: true, value: undefined });
  });

  test('execute a command once over a connection that breaks before the response', async () => {
    const { id, commandId } = await target('cut');
    const viaProxy = openClient({ address: `localhost:${proxy.port}` });
    await viaProxy.access.whoAmI({});
    const [before, accepted] = [server.log.of('rpc.request').length, proxy.accepted];
    proxy.loseAnswers();
    const answer = viaProxy.commands.executeCommand({ id, commandId });
    await server.log.until('rpc.request', before + 1);
    proxy.cut();
    const { executionId, duplicate } = await answer;
    expect([duplicate, proxy.accepted]).toEqual([true, accepted + 1]);
    const { items } = await client.commands.listExecutions({ id });
    expect(items.map((one) => [one.id, one.state])).toEqual([[executionId, ExecutionState.EXECUTION_STATE_ENQUEUED]]);
  });

  test('are sent once if unsafe to repeat, and report an unknown outcome', async () => {
    const viaProxy = openClient({ address: `localhost:${proxy.port}` });
    await viaProxy.access.whoAmI({});
    const { id } = await client.devices.createDigitalDevice({ name: 'not renamed' });
    const before = server.log.of('rpc.request').length;
    proxy.loseAnswers();
    const changed = captureError(viaProxy.devices.updateDigitalDevice({ id, name: 'renamed once' }));
    await server.log.until('rpc.request', before + 1);
    proxy.cut();
    expect(await changed).toMatchObject({ status: 'UNAVAILABLE', reason: '' });
    expect((await viaProxy.devices.listDigitalDevices({ search: 'renamed once' })).devices).toHaveLength(1);
  });

  test('create one object although the response is lost', async () => {
    const viaProxy = openClient({ address: `localhost:${proxy.port}` });
    await viaProxy.access.whoAmI({});
    const before = server.log.of('rpc.request').length;
    proxy.loseAnswers();
    const creation = viaProxy.devices.createDigitalDevice({ name: 'made once' });
    await server.log.until('rpc.request', before + 1);
    proxy.cut();
    const { id: createdId } = await creation;
    expect(
      (await viaProxy.devices.listDigitalDevices({ search: 'made once' })).devices.map((device) => device.id),
    ).toEqual([createdId]);
  });

  test('upload from a source, and download as a stream', async () => {
    const image = createPaddedJpeg();
    async function* splitImage(): AsyncGenerator<{ filename?: string; chunk: Uint8Array }> {
      for (let at = 0; at < image.length; at += 40_000)
        yield await Promise.resolve({ filename: 'full.jpg', chunk: new Uint8Array(image.subarray(at, at + 40_000)) });
    }
    const media = await client.media.uploadMedia(splitImage());
    expect(media).toMatchObject({ filename: 'full.jpg', contentType: 'image/jpeg', sizeBytes: image.length });
    const chunks: Uint8Array[] = [];
    for await (const { chunk } of client.media.downloadMedia({ id: media.id })) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(image)).toBe(true);
    expect(await captureError(client.media.uploadMedia([{ chunk: new Uint8Array(10) }]))).toMatchObject({
      reason: 'validation_failed',
    });
    await expect(client.media.uploadMedia(broken())).rejects.toThrow(new RangeError('the file is gone'));
    expect(await captureError(client.media.uploadMedia([{ chunk: 'text' as unknown as Uint8Array }]))).toMatchObject({
      reason: 'request_invalid',
    });
  });
});

/** Returns a port on which nothing listens. */
async function findClosedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function* broken(): AsyncGenerator<{ chunk: Uint8Array }> {
  yield await Promise.resolve({ chunk: new Uint8Array(10) });
  throw new RangeError('the file is gone');
}

/** Returns the PlantroomError of a failed call. */
async function captureError(call: Promise<unknown>): Promise<PlantroomError> {
  const error: unknown = await call.then(
    () => new Error('it did not fail'),
    (caught: unknown) => caught,
  );
  if (!isPlantroomError(error)) throw error as Error;
  return error;
}

async function drain(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const answer of stream) expect(answer).toBeDefined();
}
