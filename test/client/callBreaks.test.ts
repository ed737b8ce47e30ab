import { createPlantroomClient, executeAndSettle, settled, type ClientOptions, type PlantroomClient, type PlantroomError } from '../../src/client';
import { FakeServices } from './fakeServices';
import { begunThenGone, RawServer, reset, trailers, wellAnswered } from './rawServer';

const RealDate = Date;
const INTERNAL_ERROR = 2;
const CANCEL = 8;

const failure = async (call: Promise<unknown>): Promise<PlantroomError> =>
  await call.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as PlantroomError,
  );

describe('calls of plantroom-client that break', () => {
  const server = new RawServer();
  const clients: PlantroomClient[] = [];
  const open = (options: Partial<ClientOptions> = {}): PlantroomClient => {
    const client = createPlantroomClient({ address: server.address, apiKey: 'plr_key', organizationId: 'org-1', insecure: true, retry: { attempts: 3, firstPauseMs: 1 }, ...options });
    clients.push(client);
    return client;
  };
  beforeAll(async () => await server.start());
  beforeEach(() => server.paths.splice(0));
  afterEach(() => {
    for (const client of clients.splice(0)) client.close();
  });
  afterAll(async () => await server.stop());

  it.each([INTERNAL_ERROR, CANCEL])('by a reset with code %i are made again where that is safe, and are told as cut where it is not', async (code) => {
    const client = open();
    server.script = (n) => (n < 2 ? reset(code) : wellAnswered);
    await expect(client.devices.listDigitalDevices({})).resolves.toMatchObject({ devices: [] });
    expect(server.paths).toHaveLength(3);
    server.script = () => reset(code);
    expect(await failure(client.devices.listDigitalDevices({}))).toMatchObject({ status: 'UNAVAILABLE', reason: '', message: 'the connection was cut before the answer came' });
    expect(server.paths).toHaveLength(6);
    expect(await failure(client.devices.createDigitalDevice({ name: 'one' }))).toMatchObject({ status: 'UNAVAILABLE', message: 'the connection was cut before the answer came' });
    expect(server.paths).toHaveLength(7);
  });

  it('after the headers of the answer came are made again too', async () => {
    const client = open();
    server.script = (n) => (n < 2 ? begunThenGone : wellAnswered);
    await expect(client.devices.listDigitalDevices({})).resolves.toMatchObject({ devices: [] });
    expect(server.paths).toHaveLength(3);
  });

  it('by a CANCELLED that a server sent keep what it said, and are made once', async () => {
    server.script = () => trailers({ 'grpc-status': '1', 'grpc-message': 'the operator ended it' });
    expect(await failure(open().devices.listDigitalDevices({}))).toMatchObject({ status: 'CANCELLED', message: 'the operator ended it' });
    expect(server.paths).toHaveLength(1);
  });

  it.each(['AAECAwQFBgc=', '//////////8=', 'CAU='])('with details that are none (%s) keep status and text', async (details) => {
    server.script = () => trailers({ 'grpc-status': '5', 'grpc-message': 'nothing here', 'grpc-status-details-bin': details });
    const error = await failure(open().devices.getDigitalDevice({ id: 'x' }, { requestId: 'mine' }));
    expect(error).toMatchObject({ name: 'PlantroomError', status: 'NOT_FOUND', reason: '', message: 'nothing here', requestId: 'mine' });
  });

  it('of ExecuteCommand say by which trigger id they can be repeated', async () => {
    server.script = () => reset(INTERNAL_ERROR);
    const client = open();
    const own = await failure(client.commands.executeCommand({ id: 'd', commandId: 'c', triggerId: 'mine' }));
    const made = await failure(executeAndSettle(client, { id: 'd', commandId: 'c' }, { timeoutMs: 10_000 }));
    expect([own.status, own.metadata['trigger_id'], made.metadata['trigger_id']]).toEqual(['UNAVAILABLE', 'mine', expect.stringMatching(/^[0-9a-f-]{36}$/)]);
  });

  it('waiting for an execution: the time is that of the whole, and is looked at before anything is sent', async () => {
    server.script = () => () => {};
    const client = open();
    for (const timeoutMs of [-1, 0, 0.5, Number.NaN, Infinity, 2_592_000_000, undefined as unknown as number]) {
      const wrong = { status: 'INVALID_ARGUMENT', reason: 'options_invalid', violations: [{ field: 'timeoutMs' }] };
      expect(await failure(executeAndSettle(client, { id: 'd', commandId: 'c' }, { timeoutMs }))).toMatchObject(wrong);
      expect(await failure(settled(client, 'e', { timeoutMs }))).toMatchObject(wrong);
    }
    expect(server.paths).toEqual([]);
    const late = await failure(executeAndSettle(client, { id: 'd', commandId: 'c' }, { timeoutMs: 50 }));
    expect(late).toMatchObject({ status: 'DEADLINE_EXCEEDED', metadata: { trigger_id: expect.any(String) }, message: expect.stringContaining('repeat it with the same triggerId') });
  });
});

describe('calls of plantroom-client to a server that comes and goes', () => {
  const fake = new FakeServices();
  let client: PlantroomClient;
  beforeEach(async () => {
    await fake.start();
    fake.calls.splice(0);
    fake.answer = () => Buffer.alloc(0);
  });
  afterEach(() => {
    client.close();
    fake.stop();
  });
  const open = (retry: ClientOptions['retry'], deadlineMs = 20_000): void => {
    client = createPlantroomClient({ address: fake.address, apiKey: 'plr_key', organizationId: 'org-1', insecure: true, deadlineMs, retry });
  };

  it('use no attempt up while it is away', async () => {
    open({ attempts: 3, firstPauseMs: 1, longestPauseMs: 2 });
    await client.devices.listDigitalDevices({});
    // Each time it is there it takes one call, refuses it and goes, and stays away for far longer than all pauses together.
    fake.answer = () => {
      if (fake.calls.length > 3) return Buffer.alloc(0);
      setImmediate(() => {
        fake.stop();
        setTimeout(() => void fake.start(), 150);
      });
      return { code: 14, details: 'going down' };
    };
    await client.commands.executeCommand({ id: 'd', commandId: 'c' });
    expect(fake.calls).toHaveLength(4);
  });

  it('end at their deadline when the clock is set back meanwhile', async () => {
    open({ attempts: 5, firstPauseMs: 60_000, longestPauseMs: 60_000 }, 150);
    fake.stop();
    const calls = [client.devices.listDigitalDevices({}), client.devices.createDigitalDevice({ name: 'one' })].map(async (call) => await failure(call));
    globalThis.Date = class extends RealDate {
      constructor(...given: []) {
        super(...((given.length > 0 ? given : [RealDate.now() - 3_600_000]) as []));
      }

      static override now(): number {
        return RealDate.now() - 3_600_000;
      }
    } as DateConstructor;
    try {
      for (const error of await Promise.all(calls)) expect(error).toMatchObject({ status: 'DEADLINE_EXCEEDED', message: expect.stringContaining('the call was not made') });
    } finally {
      globalThis.Date = RealDate;
    }
  });
});
