import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { rootCertificates } from 'node:tls';
import { createPlantroomClient, isPlantroomError, PlantroomError, watchExecutions, type ClientOptions, type PlantroomClient } from '../../src/client';
import { ExecutionState } from '../../src/client/gen/actuator_command/v2/actuator_command_service';
import { HealthCheckResponse_ServingStatus } from '../../src/client/gen/grpc/health/v1/health';
import { filledJpeg } from '../media/pictures';
import { engines, type TestEngine } from '../support/engines';
import { startTestApp, type TestApp } from '../support/testApp';
import { CuttingProxy } from './cuttingProxy';

const NOBODY = '0190a0a0-0000-7000-8000-000000000009';
const UUID = /^[0-9a-f-]{36}$/;

describe('calls of plantroom-client', () => {
  let server: TestApp;
  let proxy: CuttingProxy;
  let client: PlantroomClient;
  const clients: PlantroomClient[] = [];
  const open = (options: Partial<ClientOptions> = {}): PlantroomClient => {
    const usual = { address: `localhost:${port()}`, apiKey: server.key, organizationId: server.organizationId, ca: readFileSync(server.app.ca ?? '') };
    const opened = createPlantroomClient({ ...usual, retry: { attempts: 3, firstPauseMs: 20 }, ...options });
    clients.push(opened);
    return opened;
  };
  const port = (): number => Number(server.app.addresses.grpc.split(':').at(-1));
  beforeAll(async () => {
    server = await startTestApp(engines()[0] as TestEngine);
    proxy = new CuttingProxy(port());
    await proxy.start();
    client = open();
  });
  afterAll(async () => {
    for (const one of clients) one.close();
    await proxy.stop();
    await server.stop();
  });

  /** A device with a command. */
  const target = async (name: string): Promise<{ id: string; commandId: string }> => {
    const connection = await client.connections.createConnection({ connectorId: 'gateway', name });
    const { id } = await client.devices.createDigitalDevice({ name, physicalDevice: { clientDeviceId: name, connectionId: connection.id } });
    const command = await client.commands.createCommand({ id, command: { name: 'Open', mode: 1, verificationStrategy: 1, directPayload: '{"on": true}' } });
    return { id, commandId: command.id };
  };

  test('reach every service', async () => {
    const before = Date.now() - 1000;
    const device = await client.devices.createDigitalDevice({ name: 'Boiler' });
    expect(device.createdAt?.getTime()).toBeGreaterThan(before);
    expect((await client.devices.listDigitalDevices({ search: 'boil' })).devices.map(({ id }) => id)).toEqual([device.id]);
    expect((await client.commands.listCommands({ id: device.id })).commands).toEqual([]);
    expect((await client.sensorTemplates.listUnitMeasurements({})).unitMeasurements.length).toBeGreaterThan(3);
    expect((await client.connections.listConnections({})).connections).toEqual([]);
    expect((await client.connectors.listConnectors({})).connectors.map(({ id }) => id)).toContain('gateway');
    expect((await client.readings.queryLatest({ deviceIds: [device.id] })).sensors).toEqual([]);
    expect((await client.organizations.getOrganization({ id: server.organizationId })).id).toBe(server.organizationId);
    expect((await client.access.whoAmI({})).apiKey?.organizationId).toBe(server.organizationId);
    expect((await client.userProfile.getPersonalUser({})).id).toMatch(UUID);
    expect((await client.health.check({ service: '' })).status).toBe(HealthCheckResponse_ServingStatus.SERVING);
    expect((await failure(client.media.getMedia({ id: NOBODY }))).reason).toBe('media_not_found');
    for await (const { status } of client.health.watch({ service: '' })) {
      expect(status).toBe(HealthCheckResponse_ServingStatus.SERVING);
      break;
    }
  });

  test('fail with what the server said', async () => {
    const missing = await failure(client.devices.getDigitalDevice({ id: NOBODY }, { requestId: 'mine-1' }));
    expect(missing).toBeInstanceOf(PlantroomError);
    expect(missing).toMatchObject({ name: 'PlantroomError', status: 'NOT_FOUND', reason: 'device_not_found', requestId: 'mine-1', violations: [], retryAfterMs: undefined });
    expect(missing.message).not.toContain('NOT_FOUND');
    expect([isPlantroomError(missing, 'device_not_found'), isPlantroomError(missing, 'command_not_found'), isPlantroomError(new Error('other'))]).toEqual([true, false, false]);
    const invalid = await failure(client.devices.createDigitalDevice({ name: '', physicalDevice: { clientDeviceId: '', connectionId: '' } }));
    expect(invalid).toMatchObject({ status: 'INVALID_ARGUMENT', reason: 'validation_failed', requestId: expect.stringMatching(UUID) as string });
    expect(invalid.violations.map(({ field }) => field)).toEqual(['name', 'physicalDevice.clientDeviceId', 'physicalDevice.connectionId']);
    const { key } = await server.newKey(server.organizationId, { scopes: ['users:read'] });
    expect(await failure(open({ apiKey: key }).devices.listDigitalDevices({}))).toMatchObject({ status: 'PERMISSION_DENIED', reason: 'scope_missing', metadata: { required_scope: 'devices:read' } });
    const wrong = { limit: 'many' } as unknown as { limit: number };
    expect(await failure(client.devices.listDigitalDevices(wrong))).toMatchObject({ status: 'INVALID_ARGUMENT', reason: 'request_invalid', message: expect.stringContaining('ListDigitalDevices') as string });
  });

  test('say what is likely wrong where no Plantroom answers', async () => {
    const cases: [Partial<ClientOptions>, RegExp][] = [
      [{ ca: rootCertificates[0] ?? '' }, /not signed by the CA that was given/],
      [{ address: `localhost:${await closedPort()}` }, /^nothing listens at localhost/],
      [{ address: 'nobody.invalid:50051' }, /name of nobody.invalid:50051 is not known/],
    ];
    for (const [options, hint] of cases) {
      const error = await failure(open({ ...options, retry: { attempts: 1 } }).devices.listDigitalDevices({}));
      expect(error).toMatchObject({ status: 'UNAVAILABLE', reason: '', message: expect.stringMatching(hint) as string, requestId: expect.stringMatching(UUID) as string });
    }
    // A watch does not go on trying where it never worked and no time makes it right.
    expect((await failure(watchExecutions(open({ ca: rootCertificates[0] ?? '' })).next())).message).toMatch(/not signed by the CA/);
    const insecure = createPlantroomClient({ address: `localhost:${port()}`, apiKey: server.key, organizationId: server.organizationId, insecure: true, retry: { attempts: 1 } });
    clients.push(insecure);
    const error = await failure(insecure.devices.listDigitalDevices({}));
    expect(error).toMatchObject({ status: 'UNAVAILABLE', message: expect.stringContaining('give ca instead of insecure: true') as string });
    expect(`${error.message}${error.stack}`).not.toContain(server.key);
  });

  test('take the key anew each time', async () => {
    let key = 'plr_wrong';
    const rotating = open({ apiKey: () => key });
    expect((await failure(rotating.access.whoAmI({}))).status).toBe('UNAUTHENTICATED');
    key = server.key;
    await rotating.access.whoAmI({});
    key = `${server.key}\n`;
    const error = await failure(rotating.access.whoAmI({}));
    expect(error).toMatchObject({ status: 'INVALID_ARGUMENT', reason: 'options_invalid', violations: [{ field: 'apiKey' }] });
    expect(error.message).not.toContain(server.key);
    await expect(async () => await rotating.connections.watchConnectionStatus({}).next()).rejects.toMatchObject({ reason: 'options_invalid' });
  });

  test('end by signal and deadline, streams too', async () => {
    const ending = new AbortController();
    const watch = client.commands.watchExecutions({}, { signal: ending.signal });
    const pending = failure(drained(watch));
    ending.abort(new Error('enough'));
    expect(await pending).toMatchObject({ status: 'CANCELLED', reason: '', cause: new Error('enough') });
    expect(await watch.next()).toEqual({ done: true, value: undefined });
    expect(await failure(drained(client.commands.watchExecutions({}, { deadlineMs: 50 })))).toMatchObject({ status: 'DEADLINE_EXCEEDED', requestId: expect.stringMatching(UUID) as string });
    const left = client.commands.watchExecutions({});
    await left.next();
    const waiting = left.next();
    await left.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
    const unread = client.commands.watchExecutions({});
    await unread.return?.();
    expect(await unread.next()).toEqual({ done: true, value: undefined });
  });

  test('execute a command once over a link that breaks before the answer', async () => {
    const { id, commandId } = await target('cut');
    const far = open({ address: `localhost:${proxy.port}` });
    await far.access.whoAmI({});
    const [before, accepted] = [server.log.of('rpc.call').length, proxy.accepted];
    proxy.loseAnswers();
    const answer = far.commands.executeCommand({ id, commandId });
    await server.log.until('rpc.call', before + 1);
    proxy.cut();
    const { executionId, duplicate } = await answer;
    expect([duplicate, proxy.accepted]).toEqual([true, accepted + 1]);
    const { items } = await client.commands.listExecutions({ id });
    expect(items.map((one) => [one.id, one.state])).toEqual([[executionId, ExecutionState.EXECUTION_STATE_ENQUEUED]]);
  });

  test('do what is not safe to repeat once, and tell that nobody knows', async () => {
    const far = open({ address: `localhost:${proxy.port}` });
    await far.access.whoAmI({});
    const before = server.log.of('rpc.call').length;
    proxy.loseAnswers();
    const made = failure(far.devices.createDigitalDevice({ name: 'once' }));
    await server.log.until('rpc.call', before + 1);
    proxy.cut();
    expect(await made).toMatchObject({ status: 'UNAVAILABLE', reason: '' });
    expect((await far.devices.listDigitalDevices({ search: 'once' })).devices).toHaveLength(1);
  });

  test('upload from a source, and download as a stream', async () => {
    const picture = filledJpeg();
    async function* pieces(): AsyncGenerator<{ filename?: string; chunk: Uint8Array }> {
      for (let at = 0; at < picture.length; at += 40_000) yield await Promise.resolve({ filename: 'full.jpg', chunk: new Uint8Array(picture.subarray(at, at + 40_000)) });
    }
    const media = await client.media.uploadMedia(pieces());
    expect(media).toMatchObject({ filename: 'full.jpg', contentType: 'image/jpeg', sizeBytes: picture.length });
    const chunks: Uint8Array[] = [];
    for await (const { chunk } of client.media.downloadMedia({ id: media.id })) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(picture)).toBe(true);
    expect(await failure(client.media.uploadMedia([{ chunk: new Uint8Array(10) }]))).toMatchObject({ reason: 'validation_failed' });
    await expect(client.media.uploadMedia(broken())).rejects.toThrow(new RangeError('the file is gone'));
    expect(await failure(client.media.uploadMedia([{ chunk: 'text' as unknown as Uint8Array }]))).toMatchObject({ reason: 'request_invalid' });
  });
});

/** A port where nothing listens. */
async function closedPort(): Promise<number> {
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

/** The PlantroomError that a call ends with. */
async function failure(call: Promise<unknown>): Promise<PlantroomError> {
  const error: unknown = await call.then(
    () => new Error('it did not fail'),
    (thrown: unknown) => thrown,
  );
  if (!isPlantroomError(error)) throw error as Error;
  return error;
}

async function drained(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const answer of stream) expect(answer).toBeDefined();
}
