import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { GatewayMemory } from '../../src/cli/simulate/gateway/gatewayMemory';
import { simulatedDevices } from '../../src/cli/simulate/simulatedDevices';
import { runSimulator } from '../../src/cli/simulate/gateway/simulator';
import type { SimulatorEvent, SimulatorOptions } from '../../src/cli/simulate/gateway/simulatorOptions';
import { CommandResultCode, GatewayStore, KnownStatus } from '../../src/gen/gateway/v1/gateway_service';
import { FakePlantroom } from '../support/fakePlantroom';

describe('the simulated gateway', () => {
  let server: FakePlantroom;
  let stop: AbortController;
  let running: Promise<void>;
  let events: SimulatorEvent[];

  beforeEach(async () => {
    server = new FakePlantroom();
    await server.start();
    stop = new AbortController();
    running = Promise.resolve();
    events = [];
  });
  afterEach(async () => {
    stop.abort();
    await running.catch(() => {});
    server.stop();
  });

  function play(options: Partial<SimulatorOptions> = {}): void {
    const usual: SimulatorOptions = {
      address: server.address,
      credentials: server.credentials,
      key: 'k',
      organizationId: 'o',
      connectionId: 'c',
      gatewayId: 'g',
      devices: simulatedDevices(['valve-1', 'room-1']),
      memory: new GatewayMemory(),
      volatile: false,
      uplinkIntervalMs: 0,
      answerDelayMs: 0,
      answer: 'accept',
      dropReceived: false,
      backoffMs: () => 1,
    };
    running = runSimulator({ ...usual, ...options }, stop.signal, (event) => events.push(event));
  }

  it('says who it is, takes a command, answers it, and sends what the device shows then', async () => {
    play();
    const stream = await server.stream(0);
    expect(await stream.next('hello')).toMatchObject({ connectionId: 'c', gatewayId: 'g', bootId: expect.any(String), store: GatewayStore.GATEWAY_STORE_DURABLE, known: [] });
    stream.welcome();
    stream.command('e1');
    expect(await stream.next('commandReceived')).toMatchObject({ executionId: 'e1' });
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'e1', result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, message: 'position is 40' });
    expect(await stream.next('uplink')).toMatchObject({ clientDeviceId: 'valve-1', payload: { $case: 'json', value: { position: 40 } } });
    expect(events.map((event) => event.event)).toEqual(['gateway.attached', 'command.taken', 'command.answered', 'uplink.sent']);
  });

  it('sends bytes where it is told to: hundredths, two bytes each', async () => {
    play({ raw: true, devices: simulatedDevices(['valve-1']) });
    const stream = await server.stream(0);
    await stream.next('hello');
    stream.welcome();
    stream.command('e1');
    await stream.next('commandReceived');
    await stream.next('commandResult');
    const { payload, fPort } = await stream.next('uplink');
    if (payload?.$case !== 'bytes') throw new Error('the simulator sent no bytes');
    expect([fPort, payload.value.readInt16BE(0), payload.value.readInt16BE(4), payload.value.length]).toEqual([2, 4000, 310, 6]);
    expect(events.at(-1)).toMatchObject({ event: 'uplink.sent', fields: { bytes: payload.value.toString('hex') } });
  });

  it('does each execution once, and tells again what it knows of it', async () => {
    const [valve] = simulatedDevices(['valve-1']);
    let acted = 0;
    const counted = { clientDeviceId: 'valve-1', read: () => ({}), act: (payload: unknown) => ((acted += 1), valve?.act(payload) ?? { ok: true as const, message: '' }) };
    play({ devices: [counted] });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1');
    await stream.next('commandResult');
    const told = stream.messages.length;
    stream.command('e1', { attempt: 2 });
    expect(await stream.next('commandResult', told)).toMatchObject({ executionId: 'e1', result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED });
    stream.ackResult('e1');
    const again = stream.messages.length;
    stream.command('e1', { attempt: 3 });
    await stream.next('commandResult', again);
    expect(acted).toBe(1);
  });

  it.each([
    ['reject', { answer: 'reject' }, {}, CommandResultCode.COMMAND_RESULT_CODE_REJECTED],
    ['no answer', { answer: 'no_answer' }, {}, CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER],
    ['a device that it does not have', {}, { clientDeviceId: 'valve-9' }, CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE],
    ['a command that is too late', {}, { expiresIn: { seconds: -1, nanos: 0 } }, CommandResultCode.COMMAND_RESULT_CODE_EXPIRED],
    ['a payload that the device does not take', {}, { payload: { $case: 'json', value: { position: 400 } } }, CommandResultCode.COMMAND_RESULT_CODE_REJECTED],
  ] as const)('answers as it was told: %s', async (_, options, command, result) => {
    play(options);
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', command);
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'e1', result });
  });

  it.each([
    ['a position', 'valve-1', Buffer.from([1, 55]), { position: 55 }],
    ['a relay', 'relay-1', Buffer.from([1, 1]), { relays: [false, true], power: 42 }],
  ])('does what bytes say: %s', async (_, clientDeviceId, value, shown) => {
    play({ devices: simulatedDevices(['valve-1', 'relay-1']) });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', { clientDeviceId, payload: { $case: 'bytes', value }, fPort: 10 });
    expect(await stream.next('commandResult')).toMatchObject({ result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED });
    expect(await stream.next('uplink')).toMatchObject({ clientDeviceId, payload: { $case: 'json', value: shown } });
    expect(events.find((event) => event.event === 'command.taken')?.fields).toMatchObject({ payload: value.toString('hex'), f_port: 10 });
  });

  it.each([
    ['a valve', 'valve-1', Buffer.from([1, 101])],
    ['a valve that gets less than its bytes', 'valve-1', Buffer.from([40])],
    ['a relay', 'relay-1', Buffer.from([0])],
  ])('answers no to bytes that mean nothing to %s', async (_, clientDeviceId, value) => {
    play({ devices: simulatedDevices(['valve-1', 'relay-1']) });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', { clientDeviceId, payload: { $case: 'bytes', value } });
    expect(await stream.next('commandResult')).toMatchObject({ result: CommandResultCode.COMMAND_RESULT_CODE_REJECTED });
  });

  it('shows the settings that commands gave a device with what it measures, also after the next command', async () => {
    play();
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1', { payload: { $case: 'json', value: { mode: 'eco', limits: { low: 5 } } } });
    expect(await stream.next('uplink')).toMatchObject({ payload: { value: { position: 0, mode: 'eco', limits: { low: 5 }, battery: 3.1 } } });
    const seen = stream.messages.length;
    stream.command('e2', { payload: { $case: 'json', value: { mode: 'boost', position: 90 } } });
    expect(await stream.next('uplink', seen)).toMatchObject({ payload: { value: { position: 90, mode: 'boost', limits: { low: 5 } } } });
    const then = stream.messages.length;
    stream.command('e3', { payload: { $case: 'json', value: { note: 'x'.repeat(20_000) } } });
    expect(await stream.next('commandResult', then)).toMatchObject({ result: CommandResultCode.COMMAND_RESULT_CODE_REJECTED, code: 'too_many_settings' });
  });

  it('can keep silent about the reception', async () => {
    play({ dropReceived: true, volatile: true });
    const stream = await server.stream(0);
    expect(await stream.next('hello')).toMatchObject({ store: GatewayStore.GATEWAY_STORE_VOLATILE });
    stream.welcome();
    stream.command('e1');
    await stream.next('commandResult');
    expect(stream.messages.map((message) => message.$case)).not.toContain('commandReceived');
  });

  it('drops a command that was withdrawn before it was done', async () => {
    play({ answerDelayMs: 60_000 });
    const stream = await server.stream(0);
    stream.welcome();
    stream.command('e1');
    await stream.next('commandReceived');
    stream.send({ $case: 'withdraw', value: { executionId: 'e1' } });
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'e1', result: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE, code: 'withdrawn' });
  });

  it('comes back after a cut with what was not acknowledged, and forgets what was', async () => {
    play();
    const first = await server.stream(0);
    first.welcome();
    first.command('done');
    await first.next('commandResult');
    first.ackResult('done');
    first.ackUplink((await first.next('uplink')).uplinkId);
    const seen = first.messages.length;
    first.command('open');
    await first.next('commandResult', seen);
    const { uplinkId } = await first.next('uplink', seen);
    first.fail(status.UNAVAILABLE, 'cut');
    const second = await server.stream(1);
    const hello = await second.next('hello');
    expect(hello.known.map(({ executionId, status: known }) => [executionId, known])).toEqual([['open', KnownStatus.KNOWN_STATUS_ACCEPTED]]);
    expect(hello.bootId).toBe((await first.next('hello')).bootId);
    second.welcome();
    expect(await second.next('commandResult')).toMatchObject({ executionId: 'open' });
    expect(await second.next('uplink')).toMatchObject({ uplinkId });
  });

  it('ends when the server will never take it', async () => {
    play();
    (await server.stream(0)).fail(status.NOT_FOUND, 'no such connection');
    await expect(running).rejects.toMatchObject({ reason: 'simulator_refused', message: expect.stringContaining('no such connection') });
  });

  it('ends its stream in peace when it is told to stop', async () => {
    play();
    const stream = await server.stream(0);
    stream.welcome();
    await stream.next('hello');
    stop.abort();
    await expect(running).resolves.toBeUndefined();
  });

  it('keeps commands in a file over a restart, and does not claim to know what it cannot know', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-gateway-'));
    try {
      const file = join(folder, 'store.json');
      play({ memory: new GatewayMemory(file), answerDelayMs: 60_000 });
      const first = await server.stream(0);
      first.welcome();
      first.command('e1');
      await first.next('commandReceived');
      stop.abort();
      await running;
      stop = new AbortController();
      play({ memory: new GatewayMemory(file) });
      const { known } = await (await server.stream(1)).next('hello');
      expect(known).toMatchObject([{ executionId: 'e1', status: KnownStatus.KNOWN_STATUS_NO_ANSWER, code: 'gateway_restarted' }]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
