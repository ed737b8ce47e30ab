import { Metadata, status } from '@grpc/grpc-js';
import { createPlantroomClient, isPlantroomError, type ClientOptions, type PlantroomClient } from '../../src/client';
import { SERVICES } from '../../src/client/createPlantroomClient';
import { RetryInfo } from '../../src/gen/google/rpc/error_details';
import { Status } from '../../src/gen/google/rpc/status';
import { ExecuteCommandRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { descriptors } from '../support/testApp';
import { FakeServices } from './fakeServices';

const LIST = '/digitaldevice.v2.DigitalDeviceService/ListDigitalDevices';
const CREATE = '/digitaldevice.v2.DigitalDeviceService/CreateDigitalDevice';
const UPDATE = '/digitaldevice.v2.DigitalDeviceService/UpdateDigitalDevice';
const EXECUTE = '/actuator_command.v2.ActuatorCommandService/ExecuteCommand';
const CANCEL = '/actuator_command.v2.ActuatorCommandService/CancelExecution';

describe('plantroom-client retries', () => {
  let fake: FakeServices;
  const clients: PlantroomClient[] = [];
  const openClient = (options: Partial<ClientOptions> = {}): PlantroomClient => {
    const client = createPlantroomClient({
      address: fake.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
      retry: { attempts: 3, firstPauseMs: 1 },
      ...options,
    });
    clients.push(client);
    return client;
  };
  /** Stops the fake server; resolves when the client has noticed. */
  const stopServer = async (client: PlantroomClient): Promise<void> => {
    fake.stream = (call) => call.write(Buffer.alloc(0));
    const watch = client.connections.watchConnectionStatus({});
    await watch.next();
    fake.stop();
    await expect(watch.next()).rejects.toMatchObject({ status: 'UNAVAILABLE' });
  };
  beforeEach(async () => {
    fake = new FakeServices();
    await fake.start();
  });
  afterEach(() => {
    for (const client of clients.splice(0)) client.close();
    fake.stop();
  });

  test('apply to read, unchanging and idempotent methods, and to no others', async () => {
    fake.answer = () => ({ code: status.UNAVAILABLE, details: 'not now' });
    const client = openClient({ retry: { attempts: 2, firstPauseMs: 1 } });
    const calledPaths: string[] = [];
    for (const [name, definition] of Object.entries(SERVICES)) {
      const methods = client[name as keyof typeof SERVICES] as unknown as Readonly<
        Record<string, (request: unknown) => Promise<unknown> & AsyncIterableIterator<unknown>>
      >;
      for (const [method, { name: wireName, responseStream, requestStream }] of Object.entries(
        definition.methods as Readonly<
          Record<string, { name: string; responseStream: boolean; requestStream: boolean }>
        >,
      )) {
        calledPaths.push(`/${definition.fullName}/${wireName}`);
        const answer = methods[method]?.(requestStream ? [] : {});
        await expect(responseStream ? answer?.next() : answer).rejects.toMatchObject({
          status: 'UNAVAILABLE',
          message: 'not now',
        });
      }
    }
    const publicMethods = [...descriptors.methods.values()].filter(
      ({ service }) => !/^gateway\.|reflection/.test(service),
    );
    expect(calledPaths.toSorted()).toEqual(publicMethods.map(({ path }) => path).toSorted());
    const repeated = new Set(fake.calls.map(({ path }) => path).filter((path) => fake.count(path) === 2));
    expect([...repeated].toSorted()).toEqual(
      publicMethods
        .filter(
          ({ kind, scope, changes, idempotencyKey, path }) =>
            kind !== 'server_streaming' &&
            (/:read$|^any$|^none$/.test(scope) || !changes || idempotencyKey || path === CANCEL),
        )
        .map(({ path }) => path)
        .toSorted(),
    );
    expect(fake.calls).toHaveLength(calledPaths.length + repeated.size);
  });

  test('stop after the configured number of attempts, and after the first response', async () => {
    fake.answer = () => (fake.count(LIST) < 3 ? { code: status.UNAVAILABLE } : Buffer.alloc(0));
    await expect(openClient().devices.listDigitalDevices({})).resolves.toMatchObject({ devices: [] });
    expect(fake.count(LIST)).toBe(3);
    expect(new Set(fake.calls.map(({ metadata }) => metadata.get('x-request-id')[0])).size).toBe(1);
    fake.answer = () => ({ code: status.UNAVAILABLE });
    await expect(openClient({ retry: { attempts: 1 } }).devices.listDigitalDevices({})).rejects.toMatchObject({
      status: 'UNAVAILABLE',
    });
    expect(fake.count(LIST)).toBe(4);
  });

  test('do not apply to a call rejected by an overloaded server; the error contains the retry delay', async () => {
    const metadata = new Metadata();
    const value = Buffer.from(RetryInfo.encode({ retryDelay: { seconds: 1, nanos: 500_000_000 } }).finish());
    metadata.set(
      'grpc-status-details-bin',
      Buffer.from(
        Status.encode({
          code: 8,
          message: 'busy',
          details: [{ typeUrl: 'type.googleapis.com/google.rpc.RetryInfo', value }],
        }).finish(),
      ),
    );
    fake.answer = () => ({ code: status.RESOURCE_EXHAUSTED, details: 'busy', metadata });
    const error: unknown = await openClient()
      .devices.listDigitalDevices({})
      .catch((e: unknown) => e);
    expect(isPlantroomError(error) && [error.status, error.reason, error.retryAfterMs, error.message]).toEqual([
      'RESOURCE_EXHAUSTED',
      '',
      1500,
      'busy',
    ]);
    expect(fake.calls).toHaveLength(1);
  });

  test('send the trigger ID that the client generated, or the given one', async () => {
    fake.answer = ({ path }) => (fake.count(path) % 3 === 0 ? Buffer.alloc(0) : { code: status.UNAVAILABLE });
    const { commands } = openClient();
    await commands.executeCommand({ id: 'device', commandId: 'command' });
    await commands.executeCommand({ id: 'device', commandId: 'command', triggerId: 'mine' });
    await commands.executeCommand({ id: 'device', commandId: 'command' });
    const ids = fake.calls.map(({ request }) => ExecuteCommandRequest.decode(request).triggerId);
    expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(ids).toEqual([ids[0], ids[0], ids[0], 'mine', 'mine', 'mine', ids[6], ids[6], ids[6]]);
    expect(ids[6]).not.toBe(ids[0]);
  });

  test('send the idempotency key that the client generated, or the given one', async () => {
    fake.answer = ({ path }) => (fake.count(path) % 2 === 0 ? Buffer.alloc(0) : { code: status.UNAVAILABLE });
    const { devices, commands } = openClient();
    await devices.createDigitalDevice({ name: 'one' });
    await devices.createDigitalDevice({ name: 'one' }, { idempotencyKey: 'mine' });
    await devices.createDigitalDevice({ name: 'one' });
    const keys = fake.calls.map(({ metadata }) => metadata.get('idempotency-key')[0]);
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(keys).toEqual([keys[0], keys[0], 'mine', 'mine', keys[4], keys[4]]);
    expect(keys[4]).not.toBe(keys[0]);
    await commands.executeCommand({ id: 'device', commandId: 'command' }, { idempotencyKey: 'mine' });
    expect(ExecuteCommandRequest.decode(fake.calls.at(-1)?.request ?? Buffer.alloc(0)).triggerId).toBe('mine');
    await expect(devices.listDigitalDevices({}, { idempotencyKey: 'two words' })).rejects.toMatchObject({
      reason: 'options_invalid',
      violations: [{ field: 'idempotencyKey' }],
    });
  });

  test('continue through a server restart, and a call without retries waits for it', async () => {
    const client = openClient({ retry: { attempts: 5, firstPauseMs: 200 } });
    await stopServer(client);
    const calls = [
      client.devices.listDigitalDevices({}),
      client.devices.createDigitalDevice({ name: 'one' }),
      client.commands.executeCommand({ id: 'd', commandId: 'c' }),
    ];
    await new Promise((resolve) => setTimeout(resolve, 300)); // The server stays down for this time.
    await fake.start();
    await expect(Promise.all(calls)).resolves.toHaveLength(3);
    expect([fake.count(LIST), fake.count(CREATE), fake.count(EXECUTE)]).toEqual([1, 1, 1]);
  });

  test('apply to reads and creates when the server stops abruptly, and to no other calls', async () => {
    const client = openClient({ retry: { attempts: 5, firstPauseMs: 50 } });
    const callsArrived = new Promise<void>((resolve) => {
      fake.answer = () => {
        if (fake.calls.length === 3) resolve();
        return fake.calls.length > 3 ? Buffer.alloc(0) : undefined;
      };
    });
    const [read, created, changed] = [
      client.devices.listDigitalDevices({}),
      client.devices.createDigitalDevice({ name: 'one' }),
      client.devices.updateDigitalDevice({ id: 'one' }).catch((e: unknown) => e),
    ];
    await callsArrived;
    fake.stop();
    await fake.start();
    await expect(read).resolves.toMatchObject({ devices: [] });
    await expect(created).resolves.toBeDefined();
    expect(await changed).toMatchObject({
      status: 'UNAVAILABLE',
      reason: '',
      message: 'the connection was interrupted before the response arrived',
    });
    expect([fake.count(LIST), fake.count(CREATE), fake.count(UPDATE)]).toEqual([2, 2, 1]);
    expect(
      new Set(
        fake.calls.filter(({ path }) => path === CREATE).map(({ metadata }) => metadata.get('idempotency-key')[0]),
      ).size,
    ).toBe(1);
  });

  test('stop if the server does not return, with an error that names its address', async () => {
    fake.stop();
    const client = openClient();
    const error = {
      status: 'UNAVAILABLE',
      reason: '',
      message: expect.stringContaining(`${fake.address} refused the connection`),
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    };
    await expect(client.devices.listDigitalDevices({})).rejects.toMatchObject(error);
    await expect(client.devices.createDigitalDevice({ name: 'one' })).rejects.toMatchObject(error);
    await expect(client.readings.streamReadings({}).next()).rejects.toMatchObject(error);
  });

  test('stop at the deadline, with the signal, or when the client closes', async () => {
    fake.answer = () => ({ code: status.UNAVAILABLE });
    const slow = openClient({ retry: { attempts: 5, firstPauseMs: 60_000, longestPauseMs: 60_000 } });
    await expect(slow.devices.listDigitalDevices({}, { deadlineMs: 30, requestId: 'mine' })).rejects.toMatchObject({
      status: 'DEADLINE_EXCEEDED',
      reason: '',
      requestId: 'mine',
    });
    const stopping = new AbortController();
    const stopped = slow.devices.listDigitalDevices({}, { signal: stopping.signal });
    stopping.abort(new Error('enough'));
    await expect(stopped).rejects.toMatchObject({ status: 'CANCELLED', reason: '', cause: new Error('enough') });
    await expect(slow.devices.listDigitalDevices({}, { signal: stopping.signal })).rejects.toMatchObject({
      status: 'CANCELLED',
    });
    fake.answer = () => Buffer.alloc(0);
    await stopServer(slow);
    const waiting = [
      slow.devices.createDigitalDevice({ name: 'x' }),
      slow.devices.listDigitalDevices({}),
      slow.connections.watchConnectionStatus({}).next(),
    ].map(async (call) => await call.catch((e: unknown) => e));
    await new Promise((resolve) => setImmediate(resolve));
    slow.close();
    for (const error of await Promise.all(waiting))
      expect(error).toMatchObject({ status: 'CANCELLED', reason: 'client_closed' });
    await expect(slow.devices.listDigitalDevices({})).rejects.toMatchObject({ reason: 'client_closed' });
    slow.close();
  });
});
