import {
  createPlantroomClient,
  executeAndWait,
  waitForExecution,
  type ClientOptions,
  type PlantroomClient,
  type PlantroomError,
} from '../../src/client';
import { FakeServices } from './fakeServices';
import { breakAfterHeaders, RawServer, resetStream, answerTrailers, answerEmpty } from './rawServer';

const RealDate = Date;
const INTERNAL_ERROR = 2;
const CANCEL = 8;

const captureError = async (call: Promise<unknown>): Promise<PlantroomError> =>
  await call.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as PlantroomError,
  );

describe('plantroom-client calls that are interrupted', () => {
  const server = new RawServer();
  const clients: PlantroomClient[] = [];
  const openClient = (options: Partial<ClientOptions> = {}): PlantroomClient => {
    const client = createPlantroomClient({
      address: server.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
      retry: { attempts: 3, firstPauseMs: 1 },
      ...options,
    });
    clients.push(client);
    return client;
  };
  beforeAll(async () => await server.start());
  beforeEach(() => server.paths.splice(0));
  afterEach(() => {
    for (const client of clients.splice(0)) client.close();
  });
  afterAll(async () => await server.stop());

  it.each([INTERNAL_ERROR, CANCEL])(
    'by a reset with code %i are retried if safe, and are reported as interrupted otherwise',
    async (code) => {
      const client = openClient();
      server.script = (n) => (n < 2 ? resetStream(code) : answerEmpty);
      await expect(client.devices.listDigitalDevices({})).resolves.toMatchObject({ devices: [] });
      expect(server.paths).toHaveLength(3);
      server.script = () => resetStream(code);
      expect(await captureError(client.devices.listDigitalDevices({}))).toMatchObject({
        status: 'UNAVAILABLE',
        reason: '',
        message: 'the connection was interrupted before the response arrived',
      });
      expect(server.paths).toHaveLength(6);
      expect(await captureError(client.devices.updateDigitalDevice({ id: 'one' }))).toMatchObject({
        status: 'UNAVAILABLE',
        message: 'the connection was interrupted before the response arrived',
      });
      expect(server.paths).toHaveLength(7);
    },
  );

  it('after the response headers arrived are retried too', async () => {
    const client = openClient();
    server.script = (n) => (n < 2 ? breakAfterHeaders : answerEmpty);
    await expect(client.devices.listDigitalDevices({})).resolves.toMatchObject({ devices: [] });
    expect(server.paths).toHaveLength(3);
  });

  it('by a CANCELLED status from the server keep its message, and are not retried', async () => {
    server.script = () => answerTrailers({ 'grpc-status': '1', 'grpc-message': 'the operator ended it' });
    expect(await captureError(openClient().devices.listDigitalDevices({}))).toMatchObject({
      status: 'CANCELLED',
      message: 'the operator ended it',
    });
    expect(server.paths).toHaveLength(1);
  });

  it.each(['AAECAwQFBgc=', '//////////8=', 'CAU='])(
    'with invalid error details (%s) keep status and text',
    async (details) => {
      server.script = () =>
        answerTrailers({ 'grpc-status': '5', 'grpc-message': 'nothing here', 'grpc-status-details-bin': details });
      const error = await captureError(openClient().devices.getDigitalDevice({ id: 'x' }, { requestId: 'mine' }));
      expect(error).toMatchObject({
        name: 'PlantroomError',
        status: 'NOT_FOUND',
        reason: '',
        message: 'nothing here',
        requestId: 'mine',
      });
    },
  );

  it('to ExecuteCommand report the trigger ID for a retry', async () => {
    server.script = () => resetStream(INTERNAL_ERROR);
    const client = openClient();
    const own = await captureError(client.commands.executeCommand({ id: 'd', commandId: 'c', triggerId: 'mine' }));
    const failedWait = await captureError(executeAndWait(client, { id: 'd', commandId: 'c' }, { timeoutMs: 10_000 }));
    expect([own.status, own.metadata['trigger_id'], failedWait.metadata['trigger_id']]).toEqual([
      'UNAVAILABLE',
      'mine',
      expect.stringMatching(/^[0-9a-f-]{36}$/),
    ]);
  });

  it('while they wait for an execution have one deadline for the whole wait, which is checked before anything is sent', async () => {
    server.script = () => () => {};
    const client = openClient();
    for (const timeoutMs of [-1, 0, 0.5, Number.NaN, Infinity, 2_592_000_000, undefined as unknown as number]) {
      const wrong = { status: 'INVALID_ARGUMENT', reason: 'options_invalid', violations: [{ field: 'timeoutMs' }] };
      expect(await captureError(executeAndWait(client, { id: 'd', commandId: 'c' }, { timeoutMs }))).toMatchObject(
        wrong,
      );
      expect(await captureError(waitForExecution(client, 'e', { timeoutMs }))).toMatchObject(wrong);
    }
    expect(server.paths).toEqual([]);
    const timedOut = await captureError(executeAndWait(client, { id: 'd', commandId: 'c' }, { timeoutMs: 50 }));
    expect(timedOut).toMatchObject({
      status: 'DEADLINE_EXCEEDED',
      metadata: { trigger_id: expect.any(String) },
      message: expect.stringContaining('repeat it with the same triggerId'),
    });
  });
});

describe('plantroom-client calls to a server that restarts repeatedly', () => {
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
  const openClient = (retry: ClientOptions['retry'], deadlineMs = 20_000): void => {
    client = createPlantroomClient({
      address: fake.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
      deadlineMs,
      retry,
    });
  };

  it('use no attempts while it is unreachable', async () => {
    openClient({ attempts: 3, firstPauseMs: 1, longestPauseMs: 2 });
    await client.devices.listDigitalDevices({});
    // Each time the server is up it receives one call, rejects it and stops, and stays down for much longer than all
    // pauses together.
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

  it('end at their deadline if the clock is set back meanwhile', async () => {
    openClient({ attempts: 5, firstPauseMs: 60_000, longestPauseMs: 60_000 }, 150);
    fake.stop();
    const calls = [client.devices.listDigitalDevices({}), client.devices.createDigitalDevice({ name: 'one' })].map(
      async (call) => await captureError(call),
    );
    globalThis.Date = class extends RealDate {
      constructor(...args: []) {
        super(...((args.length > 0 ? args : [RealDate.now() - 3_600_000]) as []));
      }

      static override now(): number {
        return RealDate.now() - 3_600_000;
      }
    } as DateConstructor;
    try {
      for (const error of await Promise.all(calls))
        expect(error).toMatchObject({
          status: 'DEADLINE_EXCEEDED',
          message: expect.stringContaining('the call was not sent'),
        });
    } finally {
      globalThis.Date = RealDate;
    }
  });
});
