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
const EXECUTE = '/actuator_command.v2.ActuatorCommandService/ExecuteCommand';
const CANCEL = '/actuator_command.v2.ActuatorCommandService/CancelExecution';

describe('retries of plantroom-client', () => {
  let fake: FakeServices;
  const clients: PlantroomClient[] = [];
  const open = (options: Partial<ClientOptions> = {}): PlantroomClient => {
    const client = createPlantroomClient({ address: fake.address, apiKey: 'plr_key', organizationId: 'org-1', insecure: true, retry: { attempts: 3, firstPauseMs: 1 }, ...options });
    clients.push(client);
    return client;
  };
  /** Stops the fake; resolves when the client has noticed. */
  const goAway = async (client: PlantroomClient): Promise<void> => {
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

  test('are made of what reads, of what changes nothing, and of what is done once, and of nothing else', async () => {
    fake.answer = () => ({ code: status.UNAVAILABLE, details: 'not now' });
    const client = open({ retry: { attempts: 2, firstPauseMs: 1 } });
    const asked: string[] = [];
    for (const [name, definition] of Object.entries(SERVICES)) {
      const methods = client[name as keyof typeof SERVICES] as unknown as Readonly<Record<string, (request: unknown) => Promise<unknown> & AsyncIterableIterator<unknown>>>;
      for (const [method, { name: wireName, responseStream, requestStream }] of Object.entries(definition.methods as Readonly<Record<string, { name: string; responseStream: boolean; requestStream: boolean }>>)) {
        asked.push(`/${definition.fullName}/${wireName}`);
        const answer = methods[method]?.(requestStream ? [] : {});
        await expect(responseStream ? answer?.next() : answer).rejects.toMatchObject({ status: 'UNAVAILABLE', message: 'not now' });
      }
    }
    const served = [...descriptors.methods.values()].filter(({ service }) => !/^gateway\.|reflection/.test(service));
    expect(asked.toSorted()).toEqual(served.map(({ path }) => path).toSorted());
    const repeated = new Set(fake.calls.map(({ path }) => path).filter((path) => fake.count(path) === 2));
    expect([...repeated].toSorted()).toEqual(
      served
        .filter(({ kind, scope, changes, path }) => kind !== 'server_streaming' && (/:read$|^any$|^none$/.test(scope) || !changes || path === EXECUTE || path === CANCEL))
        .map(({ path }) => path)
        .toSorted(),
    );
    expect(fake.calls).toHaveLength(asked.length + repeated.size);
  });

  test('are at most as many as said, and end with the first answer', async () => {
    fake.answer = () => (fake.count(LIST) < 3 ? { code: status.UNAVAILABLE } : Buffer.alloc(0));
    await expect(open().devices.listDigitalDevices({})).resolves.toMatchObject({ devices: [] });
    expect(fake.count(LIST)).toBe(3);
    expect(new Set(fake.calls.map(({ metadata }) => metadata.get('x-request-id')[0])).size).toBe(1);
    fake.answer = () => ({ code: status.UNAVAILABLE });
    await expect(open({ retry: { attempts: 1 } }).devices.listDigitalDevices({})).rejects.toMatchObject({ status: 'UNAVAILABLE' });
    expect(fake.count(LIST)).toBe(4);
  });

  test('are not made of a call that the server has no room for; the error says when', async () => {
    const metadata = new Metadata();
    const value = Buffer.from(RetryInfo.encode({ retryDelay: { seconds: 1, nanos: 500_000_000 } }).finish());
    metadata.set('grpc-status-details-bin', Buffer.from(Status.encode({ code: 8, message: 'busy', details: [{ typeUrl: 'type.googleapis.com/google.rpc.RetryInfo', value }] }).finish()));
    fake.answer = () => ({ code: status.RESOURCE_EXHAUSTED, details: 'busy', metadata });
    const error: unknown = await open().devices.listDigitalDevices({}).catch((e: unknown) => e);
    expect(isPlantroomError(error) && [error.status, error.reason, error.retryAfterMs, error.message]).toEqual(['RESOURCE_EXHAUSTED', '', 1500, 'busy']);
    expect(fake.calls).toHaveLength(1);
  });

  test('carry the trigger id that the client made, or the one that was given', async () => {
    fake.answer = ({ path }) => (fake.count(path) % 3 === 0 ? Buffer.alloc(0) : { code: status.UNAVAILABLE });
    const { commands } = open();
    await commands.executeCommand({ id: 'device', commandId: 'command' });
    await commands.executeCommand({ id: 'device', commandId: 'command', triggerId: 'mine' });
    await commands.executeCommand({ id: 'device', commandId: 'command' });
    const ids = fake.calls.map(({ request }) => ExecuteCommandRequest.decode(request).triggerId);
    expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(ids).toEqual([ids[0], ids[0], ids[0], 'mine', 'mine', 'mine', ids[6], ids[6], ids[6]]);
    expect(ids[6]).not.toBe(ids[0]);
  });

  test('outlast a restart of the server, and a call that is made once waits for it', async () => {
    const client = open({ retry: { attempts: 5, firstPauseMs: 200 } });
    await goAway(client);
    const calls = [client.devices.listDigitalDevices({}), client.devices.createDigitalDevice({ name: 'one' }), client.commands.executeCommand({ id: 'd', commandId: 'c' })];
    await new Promise((resolve) => setTimeout(resolve, 300)); // the time that it is away
    await fake.start();
    await expect(Promise.all(calls)).resolves.toHaveLength(3);
    expect([fake.count(LIST), fake.count(CREATE), fake.count(EXECUTE)]).toEqual([1, 1, 1]);
  });

  test('are made of what reads when the server goes down without grace, and of nothing else', async () => {
    const client = open({ retry: { attempts: 5, firstPauseMs: 50 } });
    const areThere = new Promise<void>((resolve) => {
      fake.answer = () => {
        if (fake.calls.length === 2) resolve();
        return fake.calls.length > 2 ? Buffer.alloc(0) : undefined;
      };
    });
    const [read, made] = [client.devices.listDigitalDevices({}), client.devices.createDigitalDevice({ name: 'one' }).catch((e: unknown) => e)];
    await areThere;
    fake.stop();
    await fake.start();
    await expect(read).resolves.toMatchObject({ devices: [] });
    expect(await made).toMatchObject({ status: 'UNAVAILABLE', reason: '', message: 'the connection was cut before the answer came' });
    expect([fake.count(LIST), fake.count(CREATE)]).toEqual([2, 1]);
  });

  test('end when nobody comes back, with an error that says where nothing listens', async () => {
    fake.stop();
    const client = open();
    const error = { status: 'UNAVAILABLE', reason: '', message: expect.stringContaining(`nothing listens at ${fake.address}`), requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) };
    await expect(client.devices.listDigitalDevices({})).rejects.toMatchObject(error);
    await expect(client.devices.createDigitalDevice({ name: 'one' })).rejects.toMatchObject(error);
    await expect(client.readings.streamReadings({}).next()).rejects.toMatchObject(error);
  });

  test('end with the deadline, the signal, or the client', async () => {
    fake.answer = () => ({ code: status.UNAVAILABLE });
    const slow = open({ retry: { attempts: 5, firstPauseMs: 60_000, longestPauseMs: 60_000 } });
    await expect(slow.devices.listDigitalDevices({}, { deadlineMs: 30, requestId: 'mine' })).rejects.toMatchObject({ status: 'DEADLINE_EXCEEDED', reason: '', requestId: 'mine' });
    const stopping = new AbortController();
    const stopped = slow.devices.listDigitalDevices({}, { signal: stopping.signal });
    stopping.abort(new Error('enough'));
    await expect(stopped).rejects.toMatchObject({ status: 'CANCELLED', reason: '', cause: new Error('enough') });
    await expect(slow.devices.listDigitalDevices({}, { signal: stopping.signal })).rejects.toMatchObject({ status: 'CANCELLED' });
    fake.answer = () => Buffer.alloc(0);
    await goAway(slow);
    const waiting = [slow.devices.createDigitalDevice({ name: 'x' }), slow.devices.listDigitalDevices({}), slow.connections.watchConnectionStatus({}).next()].map(async (call) => await call.catch((e: unknown) => e));
    await new Promise((resolve) => setImmediate(resolve));
    slow.close();
    for (const error of await Promise.all(waiting)) expect(error).toMatchObject({ status: 'CANCELLED', reason: 'client_closed' });
    await expect(slow.devices.listDigitalDevices({})).rejects.toMatchObject({ reason: 'client_closed' });
    slow.close();
  });
});
