import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { createSimulatedDevices } from '../../src/cli/simulate/simulatedDevices';
import { simulateGateway, type GatewayFlags } from '../../src/cli/simulate/gateway/simulateGateway';
import { runSimulator } from '../../src/cli/simulate/gateway/simulator';
import type { SimulatorEvent, SimulatorOptions } from '../../src/cli/simulate/gateway/simulatorOptions';
import { createSimulatorStore } from '../../src/cli/simulate/gateway/simulatorStore';
import { memoryStore } from '../../src/client/gateway';
import { CommandResultCode, GatewayStore, CommandSnapshotStatus } from '../../src/gen/gateway/v1/gateway_service';
import { FakePlantroom } from '../support/fakePlantroom';

describe('the simulated gateway', () => {
  let server: FakePlantroom;
  let stop: AbortController;
  let running: Promise<void>;
  let events: SimulatorEvent[];
  let wakers: (() => void)[];

  beforeEach(async () => {
    server = new FakePlantroom();
    await server.start();
    stop = new AbortController();
    running = Promise.resolve();
    [events, wakers] = [[], []];
  });
  afterEach(async () => {
    stop.abort();
    await running.catch(() => {});
    server.stop();
  });

  function startSimulator(options: Partial<SimulatorOptions> = {}): void {
    const defaults: SimulatorOptions = {
      address: server.address,
      security: { insecure: true },
      key: 'k',
      organizationId: 'o',
      connectionId: 'c',
      gatewayId: 'g',
      devices: createSimulatedDevices(['valve-1', 'room-1']),
      store: memoryStore(),
      uplinkIntervalMs: 0,
      answerDelayMs: 0,
      answer: 'accept',
      sendReceipts: true,
      backoffMs: () => 1,
    };
    running = runSimulator({ ...defaults, ...options }, stop.signal, (event) => {
      events.push(event);
      for (const wake of wakers.splice(0)) wake();
    });
  }

  /** Resolves with the first event of this name. */
  async function waitForEvent(name: SimulatorEvent['event']): Promise<SimulatorEvent> {
    for (;;) {
      const found = events.find(({ event }) => event === name);
      if (found) return found;
      await new Promise<void>((resolve) => wakers.push(resolve));
    }
  }

  it('identifies itself, receives a command, answers it, and sends the new device state', async () => {
    startSimulator();
    const stream = await server.stream(0);
    expect(await stream.next('hello')).toMatchObject({
      connectionId: 'c',
      gatewayId: 'g',
      bootId: expect.any(String),
      store: GatewayStore.GATEWAY_STORE_VOLATILE,
      known: [],
      lowestProtocolVersion: 1,
      highestProtocolVersion: 1,
      software: expect.stringMatching(/^plantroom simulate \d/),
    });
    stream.welcome();
    stream.command('e1');
    expect(await stream.next('commandReceived')).toMatchObject({ executionId: 'e1' });
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'e1',
      result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
      message: 'position is 40',
    });
    expect(await stream.next('uplink')).toMatchObject({
      clientDeviceId: 'valve-1',
      payload: { $case: 'json', value: { position: 40 } },
    });
    expect(events.map((event) => event.event)).toEqual([
      'gateway.attached',
      'command.taken',
      'command.answered',
      'uplink.sent',
    ]);
  });

  it('sends bytes if configured: hundredths, two bytes each', async () => {
    startSimulator({ binaryPayload: true, devices: createSimulatedDevices(['valve-1']) });
    const stream = await server.stream(0);
    await stream.next('hello');
    stream.welcome();
    stream.command('e1');
    await stream.next('commandReceived');
    await stream.next('commandResult');
    const { payload, fPort } = await stream.next('uplink');
    if (payload?.$case !== 'bytes') throw new Error('the simulator sent no bytes');
    expect([fPort, payload.value.readInt16BE(0), payload.value.readInt16BE(4), payload.value.length]).toEqual([
      2, 4000, 310, 6,
    ]);
    expect(events.at(-1)).toMatchObject({ event: 'uplink.sent', fields: { bytes: payload.value.toString('hex') } });
  });

  it('runs each execution once, and repeats its known result', async () => {
    const [valve] = createSimulatedDevices(['valve-1']);
    let acted = 0;
    const countingValve = {
      clientDeviceId: 'valve-1',
      read: () => ({}),
      act: (payload: unknown) => ((acted += 1), valve?.act(payload) ?? { ok: true as const, message: '' }),
    };
    startSimulator({ devices: [countingValve] });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1');
    await stream.next('commandResult');
    const countBeforeRepeat = stream.messages.length;
    stream.command('e1', { attempt: 2 });
    expect(await stream.next('commandResult', countBeforeRepeat)).toMatchObject({
      executionId: 'e1',
      result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
    });
    stream.ackResult('e1');
    const countBeforeSecond = stream.messages.length;
    stream.command('e1', { attempt: 3 });
    await stream.next('commandResult', countBeforeSecond);
    expect(acted).toBe(1);
  });

  it.each([
    ['reject', { answer: 'reject' }, {}, CommandResultCode.COMMAND_RESULT_CODE_REJECTED],
    ['no answer', { answer: 'no_answer' }, {}, CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER],
    ['an unknown device', {}, { clientDeviceId: 'valve-9' }, CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE],
    ['an expired command', {}, { expiresIn: { seconds: -1, nanos: 0 } }, CommandResultCode.COMMAND_RESULT_CODE_EXPIRED],
    [
      'an invalid payload',
      {},
      { payload: { $case: 'json', value: { position: 400 } } },
      CommandResultCode.COMMAND_RESULT_CODE_REJECTED,
    ],
  ] as const)('answers as configured: %s', async (_, options, command, result) => {
    startSimulator(options);
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', command);
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'e1', result });
  });

  it.each([
    ['a position', 'valve-1', Buffer.from([1, 55]), { position: 55 }],
    ['a relay', 'relay-1', Buffer.from([1, 1]), { relays: [false, true], power: 42 }],
  ])('interprets bytes: %s', async (_, clientDeviceId, value, shown) => {
    startSimulator({ devices: createSimulatedDevices(['valve-1', 'relay-1']) });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', { clientDeviceId, payload: { $case: 'bytes', value }, fPort: 10 });
    expect(await stream.next('commandResult')).toMatchObject({
      result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
    });
    expect(await stream.next('uplink')).toMatchObject({ clientDeviceId, payload: { $case: 'json', value: shown } });
    expect(events.find((event) => event.event === 'command.taken')?.fields).toMatchObject({
      payload: value.toString('hex'),
      f_port: 10,
    });
  });

  it.each([
    ['a valve', 'valve-1', Buffer.from([1, 101])],
    ['a valve that receives too few bytes', 'valve-1', Buffer.from([40])],
    ['a relay', 'relay-1', Buffer.from([0])],
  ])('rejects bytes without a meaning for %s', async (_, clientDeviceId, value) => {
    startSimulator({ devices: createSimulatedDevices(['valve-1', 'relay-1']) });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', { clientDeviceId, payload: { $case: 'bytes', value } });
    expect(await stream.next('commandResult')).toMatchObject({
      result: CommandResultCode.COMMAND_RESULT_CODE_REJECTED,
    });
  });

  it('includes the settings of earlier commands in measurements, also after the next command', async () => {
    startSimulator();
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', { payload: { $case: 'json', value: { mode: 'eco', limits: { low: 5 } } } });
    expect(await stream.next('uplink')).toMatchObject({
      payload: { value: { position: 0, mode: 'eco', limits: { low: 5 }, battery: 3.1 } },
    });
    const messagesSoFar = stream.messages.length;
    stream.command('e2', { payload: { $case: 'json', value: { mode: 'boost', position: 90 } } });
    expect(await stream.next('uplink', messagesSoFar)).toMatchObject({
      payload: { value: { position: 90, mode: 'boost', limits: { low: 5 } } },
    });
    const then = stream.messages.length;
    stream.command('e3', { payload: { $case: 'json', value: { note: 'x'.repeat(20_000) } } });
    expect(await stream.next('commandResult', then)).toMatchObject({
      result: CommandResultCode.COMMAND_RESULT_CODE_REJECTED,
      code: 'too_many_settings',
    });
  });

  it('can skip the receipt', async () => {
    startSimulator({ sendReceipts: false });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1');
    await stream.next('commandResult');
    expect(stream.messages.map((message) => message.$case)).not.toContain('commandReceived');
  });

  it('drops a command that was cancelled before it ran', async () => {
    startSimulator({ answerDelayMs: 60_000 });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1');
    await stream.next('commandReceived');
    stream.send({ $case: 'cancelCommand', value: { executionId: 'e1' } });
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'e1',
      result: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE,
      code: 'cancelled',
    });
  });

  it('resends unacknowledged messages after a disconnect, and forgets acknowledged ones', async () => {
    startSimulator();
    const first = await server.stream(0);
    first.welcome();
    first.command('done');
    await first.next('commandResult');
    first.ackResult('done');
    first.ackUplink((await first.next('uplink')).uplinkId);
    const messagesSoFar = first.messages.length;
    first.command('open');
    await first.next('commandResult', messagesSoFar);
    const { uplinkId } = await first.next('uplink', messagesSoFar);
    first.fail(status.UNAVAILABLE, 'cut');
    const second = await server.stream(1);
    const hello = await second.next('hello');
    expect(hello.known.map(({ executionId, status: known }) => [executionId, known])).toEqual([
      ['open', CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED],
    ]);
    expect(hello.bootId).toBe((await first.next('hello')).bootId);
    second.welcome();
    expect(await second.next('commandResult')).toMatchObject({ executionId: 'open' });
    expect(await second.next('uplink')).toMatchObject({ uplinkId });
  });

  it('exits if the server rejects it permanently', async () => {
    startSimulator();
    (await server.stream(0)).fail(status.NOT_FOUND, 'no such connection');
    await expect(running).rejects.toMatchObject({
      reason: 'connection_refused',
      message: expect.stringContaining('no such connection'),
    });
  });

  it('names the command line flags if it reaches no Plantroom server', async () => {
    startSimulator({ security: {} });
    const { fields } = await waitForEvent('gateway.detached');
    expect(fields).toMatchObject({
      status: 'UNAVAILABLE',
      message: expect.stringMatching(/^cannot reach the server at .*\(--ca\), .*\(--plaintext\) \(.+\)$/),
    });
    expect(JSON.stringify(fields)).not.toContain('insecure');
  });

  it.each([
    ['--delay must be at most 24d', { delay: 30 * 86_400_000 }],
    ['set the key exactly as it was shown at its creation, with --key,', { key: 'bad key' }],
  ])('rejects an invalid option by its flag: %s', async (message, flags) => {
    const defaults: GatewayFlags = {
      address: server.address,
      plaintext: true,
      key: 'k',
      organization: 'o',
      connection: 'c',
      interval: 0,
      delay: 0,
      receipts: true,
    };
    await expect(simulateGateway({ ...defaults, ...flags })).rejects.toMatchObject({
      name: 'UsageError',
      message: expect.stringContaining(message),
    });
  });

  it('closes its stream cleanly when it is stopped', async () => {
    startSimulator();
    const stream = await server.stream(0);
    stream.welcome();
    await stream.next('hello');
    stop.abort();
    await expect(running).resolves.toBeUndefined();
  });

  it('keeps unacknowledged messages and its name in a file across a restart', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-gateway-'));
    try {
      const file = join(folder, 'gateway.db');
      const own = { gatewayId: undefined, devices: createSimulatedDevices(['valve-1']) };
      startSimulator({ ...own, store: createSimulatorStore(file, false) });
      const first = await server.stream(0);
      first.welcome();
      first.command('done');
      await first.next('commandResult');
      const { uplinkId } = await first.next('uplink');
      const hello = await first.next('hello');
      stop.abort();
      await running;
      stop = new AbortController();
      startSimulator({ ...own, store: createSimulatorStore(file, true) });
      const second = await server.stream(1);
      expect(await second.next('hello')).toMatchObject({
        gatewayId: hello.gatewayId,
        store: GatewayStore.GATEWAY_STORE_VOLATILE,
        known: [
          {
            executionId: 'done',
            status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED,
            message: 'position is 40',
          },
        ],
      });
      expect([hello.store, hello.bootId === (await second.next('hello')).bootId]).toEqual([
        GatewayStore.GATEWAY_STORE_DURABLE,
        false,
      ]);
      second.welcome();
      expect(await second.next('uplink')).toMatchObject({ uplinkId });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('reports at a stop that a command that its device has not run was not run', async () => {
    startSimulator({ answerDelayMs: 60_000 });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1');
    await stream.next('commandReceived');
    stop.abort();
    await running;
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'e1',
      result: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE,
      code: 'gateway_stopped',
    });
  });

  it('reports the uplinks that it drops while the server is unreachable for long', async () => {
    startSimulator({
      devices: createSimulatedDevices(Array.from({ length: 1001 }, (_, at) => `room-${at + 1}`)),
      uplinkIntervalMs: 3_600_000,
    });
    await server.stream(0);
    expect((await waitForEvent('uplink.dropped')).fields).toEqual({
      uplink_id: expect.any(String),
      device: 'room-1001',
      reason: 'uplinks_full',
      message: expect.any(String),
    });
  });

  it('rejects the file of an earlier version or of another program, and a file that would not fit', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-gateway-'));
    try {
      writeFileSync(join(folder, 'store.json'), '[]');
      startSimulator({ store: createSimulatorStore(join(folder, 'store.json'), false) });
      await expect(running).rejects.toMatchObject({ name: 'GatewayError', reason: 'store_of_another' });
      startSimulator({ connectionId: '' });
      await expect(running).rejects.toMatchObject({
        name: 'UsageError',
        message: expect.stringContaining('connectionId'),
      });
      running = Promise.resolve();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
