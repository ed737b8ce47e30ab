import { status } from '@grpc/grpc-js';
import { type Gateway, GatewayError } from '../../../src/client/gateway';
import { CommandResultCode as Code, KnownStatus } from '../../../src/gen/gateway/v1/gateway_service';
import type { FakeStream } from '../../support/fakePlantroom';
import { GatewayRoom, HeldDeliveries, ShakyStore } from './gatewayRoom';

const SHORT = { expiresIn: { seconds: 0, nanos: 60_000_000 } };

describe('deadlines, withdrawals and failures of deliveries', () => {
  let room: GatewayRoom;
  let held: HeldDeliveries;

  beforeEach(async () => {
    room = new GatewayRoom();
    held = new HeldDeliveries();
    await room.open();
  });
  afterEach(async () => await room.close());

  it('delivers the commands of a device one after another and in order, those of others meanwhile, and no more at once than it was told', async () => {
    room.start({ deliver: held.deliver, deliveriesAtOnce: 2 });
    const stream = await room.attached();
    for (const [id, device] of [['a1', 'a'], ['a2', 'a'], ['b1', 'b'], ['c1', 'c'], ['a3', 'a']] as const) stream.command(id, { clientDeviceId: device });
    await held.call(1);
    expect(held.calls.map(({ command }) => command.executionId)).toEqual(['a1', 'b1']);
    held.calls[0]?.answer({ result: 'accepted' });
    expect((await held.call(2)).command.executionId).toBe('c1'); // the lanes take turns
    held.calls[2]?.answer({ result: 'accepted' });
    expect((await held.call(3)).command.executionId).toBe('a2');
    held.calls[3]?.answer({ result: 'accepted' });
    expect((await held.call(4)).command.executionId).toBe('a3');
  });

  it('answers EXPIRED at the deadline where the turn has not come, and never delivers then', async () => {
    room.start({ deliver: held.deliver });
    const stream = await room.attached();
    stream.command('first');
    stream.command('second', SHORT);
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'second', result: Code.COMMAND_RESULT_CODE_EXPIRED, code: 'expired' });
    held.calls[0]?.answer({ result: 'accepted' });
    expect(await stream.next('commandResult', stream.messages.length)).toMatchObject({ executionId: 'first' });
    expect(held.calls.length).toBe(1);
  });

  it('answers EXPIRED to what comes too late, and to what names no deadline at all', async () => {
    room.start({ deliver: held.deliver });
    const stream = await room.attached();
    stream.command('late', { expiresIn: { seconds: -1, nanos: 0 } });
    stream.command('endless', { expiresIn: undefined, clientDeviceId: 'valve-2' });
    await room.event('command_answered', 1);
    expect(room.events.filter(({ event }) => event === 'command_answered')).toMatchObject([{ result: 'expired' }, { result: 'expired' }]);
    expect(held.calls.length).toBe(0);
  });

  it('counts a deadline by the clock of the server where expires_in is missing, whatever the time of day here', async () => {
    room.start({ deliver: held.deliver });
    const stream = await room.server.stream(0);
    stream.send({ $case: 'welcome', value: { serverTime: { seconds: 1000, nanos: 0 }, maxInFlight: 16, protocolVersion: 1, serverVersion: '0.2.0' } });
    stream.command('gone', { expiresIn: undefined, deadline: { seconds: 999, nanos: 0 } });
    stream.command('due', { expiresIn: undefined, deadline: { seconds: 1060, nanos: 0 }, clientDeviceId: 'valve-2' });
    expect((await held.call(0)).command.executionId).toBe('due');
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'gone', result: Code.COMMAND_RESULT_CODE_EXPIRED });
  });

  it('lets commands expire while no server is attached, and tells it when one is', async () => {
    room.start({ deliver: held.deliver });
    const first = await room.attached();
    first.command('first');
    first.command('second', SHORT);
    await first.next('commandReceived', 2);
    first.fail(status.UNAVAILABLE, 'gone');
    const second = await room.server.stream(1);
    await room.event('command_answered'); // before the welcome
    second.welcome();
    expect(await second.next('commandResult')).toMatchObject({ executionId: 'second', result: Code.COMMAND_RESULT_CODE_EXPIRED });
  });

  it('goes on after a restart: delivers what is due, answers EXPIRED or NO_ANSWER to the rest, and delivers nothing twice', async () => {
    const store = new ShakyStore();
    const before = room.start({ deliver: held.deliver, store });
    const first = await room.attached();
    first.command('begun');
    for (const executionId of ['waiting', 'stale']) first.command(executionId);
    first.command('brief', SHORT);
    await first.next('commandReceived', 4);
    await held.call(0);
    store.isKilled = true;
    await before.stop(0);
    store.isKilled = false;
    store.aged = (command) => (command.executionId === 'stale' ? { ...command, machineStart: 'before' } : command);
    await new Promise((resolve) => setTimeout(resolve, 60)); // for the deadline of `brief`
    room.start({ deliver: held.deliver, store });
    const second = await room.server.stream(1);
    expect((await second.next('hello')).known.map(({ executionId, status, code }) => [executionId, KnownStatus[status], code])).toEqual([
      ['begun', 'KNOWN_STATUS_NO_ANSWER', 'gateway_restarted'],
      ['waiting', 'KNOWN_STATUS_RECEIVED', ''],
      ['stale', 'KNOWN_STATUS_EXPIRED', 'expired'],
      ['brief', 'KNOWN_STATUS_EXPIRED', 'expired'],
    ]);
    expect((await held.call(1)).command.executionId).toBe('waiting');
    expect(held.calls.length).toBe(2);
  });

  it('drops what was withdrawn before it began, and tells a delivery that began', async () => {
    room.start({ deliver: held.deliver });
    const stream = await room.attached();
    stream.command('first');
    stream.command('second');
    await stream.next('commandReceived', 2);
    stream.send({ $case: 'withdraw', value: { executionId: 'second' } });
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'second', result: Code.COMMAND_RESULT_CODE_UNREACHABLE, code: 'withdrawn' });
    const { delivery, answer } = await held.call(0);
    stream.send({ $case: 'withdraw', value: { executionId: 'first' } });
    await new Promise((resolve) => delivery.signal.addEventListener('abort', resolve));
    answer({ result: 'accepted' });
    expect(await stream.next('commandResult', 4)).toMatchObject({ executionId: 'first', result: Code.COMMAND_RESULT_CODE_ACCEPTED });
    expect(held.calls.length).toBe(1);
  });

  it('answers NO_ANSWER for what deliver throws, and for what is no result; cuts what is too long', async () => {
    const answers = [
      async () => await Promise.reject(new Error('the bus is down')),
      () => ({ result: 'done' }),
      () => undefined,
      () => ({ result: 'rejected', code: 'c'.repeat(500), message: 'm'.repeat(5000), time: new Date(Number.NaN) }),
    ] as unknown as (() => { result: 'accepted' })[];
    room.start({ deliver: () => (answers.shift() as () => { result: 'accepted' })() });
    const stream = await room.attached();
    const results = [];
    for (const id of ['e1', 'e2', 'e3', 'e4']) {
      const from = stream.messages.length;
      stream.command(id);
      results.push(await stream.next('commandResult', from));
    }
    expect(results).toMatchObject([
      { result: Code.COMMAND_RESULT_CODE_NO_ANSWER, code: 'delivery_failed', message: 'the bus is down' },
      { result: Code.COMMAND_RESULT_CODE_NO_ANSWER, code: 'result_unknown' },
      { result: Code.COMMAND_RESULT_CODE_NO_ANSWER, code: 'result_unknown' },
      { result: Code.COMMAND_RESULT_CODE_REJECTED, code: 'c'.repeat(128), message: 'm'.repeat(2000), time: { seconds: expect.any(Number) } },
    ]);
  });

  it('answers NO_ANSWER when a delivery takes too long, goes on with the device, and tells the late answer to the log alone', async () => {
    room.start({ deliver: held.deliver, deliveryTimeoutMs: 20 });
    const stream = await room.attached();
    stream.command('slow');
    const { delivery, answer } = await held.call(0);
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'slow', result: Code.COMMAND_RESULT_CODE_NO_ANSWER, code: 'delivery_timeout' });
    expect(delivery.signal.aborted).toBe(true);
    const told = stream.messages.length;
    answer({ result: 'accepted' });
    expect(await room.event('delivery_too_late')).toMatchObject({ executionId: 'slow', result: 'accepted' });
    stream.command('next');
    (await held.call(1)).answer({ result: 'accepted' });
    await stream.next('commandResult', told);
    expect(stream.messages.slice(told).map(({ value }) => (value as { executionId: string }).executionId)).toEqual(['next', 'next']);
  });

  it('takes a result as told whatever the server makes of it', async () => {
    room.start();
    const stream = await room.attached();
    for (const [id, outcome] of [['e1', 2], ['e2', 3]] as const) {
      stream.command(id);
      await stream.next('commandResult', stream.messages.length);
      stream.send({ $case: 'commandResultAck', value: { executionId: id, outcome } });
    }
    await room.event('command_acknowledged', 1);
    stream.fail(status.UNAVAILABLE, 'gone');
    expect(await (await room.server.stream(1)).next('hello')).toMatchObject({ known: [] });
    expect(room.events.filter(({ event }) => event === 'command_acknowledged')).toMatchObject([{ outcome: 'late' }, { outcome: 'unknown' }]);
  });

  it('holds as many commands as Hello can list, and refuses what is more', async () => {
    const answered = new Promise((resolve) => room.start({ deliver: held.deliver, deliveriesAtOnce: 1, onEvent: (event) => event.event === 'command_answered' && resolve(event) }));
    const stream = await room.attached();
    for (let n = 0; n <= 10_000; n++) stream.command(`e${n}`);
    expect(await answered).toMatchObject({ executionId: 'e10000', result: 'refused', code: 'gateway_full' });
    stream.fail(status.UNAVAILABLE, 'gone');
    expect((await (await room.server.stream(1)).next('hello')).known.length).toBe(10_000);
    expect(held.calls.length).toBe(1);
  });

  it('tells a result again that stays unacknowledged for half a minute', async () => {
    jest.useFakeTimers({ doNotFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'nextTick', 'queueMicrotask', 'performance', 'Date', 'hrtime'] });
    try {
      room.start();
      const stream = await room.attached();
      stream.command('e1');
      stream.command('e2');
      await stream.result('e1');
      await stream.result('e2');
      stream.ackResult('e2');
      await room.event('command_acknowledged');
      const told = stream.messages.length;
      await jest.advanceTimersByTimeAsync(30_000);
      await stream.result('e1', told);
      expect(stream.messages.slice(told).map(({ $case }) => $case)).toEqual(['commandResult']);
    } finally {
      jest.useRealTimers();
    }
  });

  it('tells thousands of results as the network takes them, without their texts in Hello, which would be too long', async () => {
    const store = new ShakyStore();
    store.open({ connectionId: 'connection-1', gatewayId: undefined });
    const ended = { stage: 'ended', message: new Uint8Array(0), expiresAtUptimeMs: 0, machineStart: '', time: 1, result: Code.COMMAND_RESULT_CODE_REJECTED, code: 'c', text: 'm'.repeat(300) } as const;
    store.apply(Array.from({ length: 3000 }, (_, n) => ({ kind: 'command', command: { executionId: `e${n}`, ...ended } }) as const));
    store.close();
    room.start({ store });
    const stream = await room.attached();
    const { known } = await stream.next('hello');
    expect([known.length, known.every(({ status: found, code, message }) => found === KnownStatus.KNOWN_STATUS_REJECTED && code === '' && message === '')]).toEqual([3000, true]);
    await stream.result('e2999');
    const results = stream.messages.flatMap(({ $case, value }) => ($case === 'commandResult' ? [value] : []));
    expect([new Set(results.map(({ executionId }) => executionId)).size, results.length, results.at(-1)?.message.length]).toEqual([3000, 3000, 300]);
  });

  it('can keep silent about the reception', async () => {
    room.start({ withoutReceipts: true });
    const stream = await room.attached();
    stream.command('e1');
    await stream.next('commandResult');
    expect(stream.messages.map(({ $case }) => $case)).not.toContain('commandReceived');
  });
});

describe('a store that does not take commands', () => {
  let room: GatewayRoom;
  let store: ShakyStore;
  let stream: FakeStream;
  let held: HeldDeliveries;
  let gateway: Gateway;

  beforeEach(async () => {
    room = new GatewayRoom();
    store = new ShakyStore();
    held = new HeldDeliveries();
    await room.open();
    gateway = room.start({ store, deliver: held.deliver });
    stream = await room.server.stream(0);
    stream.welcome();
    await room.event('attached');
  });
  afterEach(async () => await room.close());

  /** One that is being delivered, and one that waits for it. */
  async function keepWaiting(): Promise<void> {
    stream.command('begun');
    await held.call(0);
    stream.command('waiting');
    await stream.next('commandReceived', 2);
  }

  function refuse(stage: string): void {
    store.refuses = (change) => change.kind === 'command' && change.command.stage === stage;
  }

  it.each(['store_full', 'store_failed'] as const)('refuses what it cannot keep: %s', async (reason) => {
    store.reason = reason;
    refuse('started');
    stream.command('e1');
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'e1', result: Code.COMMAND_RESULT_CODE_REFUSED, code: `gateway_${reason}` });
    expect(stream.messages.map(({ $case }) => $case)).toEqual(['hello', 'commandResult']);
    stream.ackResult('e1');
    await room.event('command_acknowledged');
    expect([held.calls.length, store.log.length, room.names()]).toEqual([0, 0, ['attached', 'command_taken', 'store_failing', 'command_answered', 'command_acknowledged']]);
  });

  it('does not know of what comes where the store cannot be asked, and says that', async () => {
    jest.spyOn(store, 'findCommand').mockImplementation(() => {
      throw new GatewayError('store_failed', 'the disk is gone');
    });
    stream.command('e1');
    expect(await stream.result('e1')).toMatchObject({ result: Code.COMMAND_RESULT_CODE_NO_ANSWER, code: 'gateway_store_failed' });
    expect(held.calls.length).toBe(0);
  });

  it('refuses what it cannot keep until its turn comes', async () => {
    refuse('received');
    stream.command('begun');
    await held.call(0);
    stream.command('waiting');
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'waiting', result: Code.COMMAND_RESULT_CODE_REFUSED, code: 'gateway_store_full' });
    expect([held.calls.length, store.findCommand('waiting')]).toEqual([1, undefined]);
  });

  it('does not deliver what waited where it cannot keep that it begins, and says so once a restart could not deliver it either', async () => {
    await keepWaiting();
    refuse('started');
    held.calls[0]?.answer({ result: 'accepted' });
    expect(await stream.result('waiting')).toMatchObject({ result: Code.COMMAND_RESULT_CODE_UNREACHABLE, code: 'gateway_store_full' });
    expect([held.calls.length, store.findCommand('waiting')?.stage]).toEqual([1, 'ended']);
  });

  it('holds the result of what was not begun until it is kept, however long uplinks are refused', async () => {
    await keepWaiting();
    store.refuses = (change) => change.kind === 'uplink' || (change.kind === 'command' && change.command.executionId === 'waiting');
    stream.send({ $case: 'withdraw', value: { executionId: 'waiting' } });
    await room.event('store_failing');
    await new Promise((resolve) => setImmediate(resolve));
    expect(stream.messages.map(({ $case }) => $case)).not.toContain('commandResult');
    store.refuses = ({ kind }) => kind === 'uplink';
    await expect(gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } })).rejects.toMatchObject({ reason: 'store_full' });
    expect(await stream.next('commandResult')).toMatchObject({ executionId: 'waiting', result: Code.COMMAND_RESULT_CODE_UNREACHABLE, code: 'withdrawn' });
    expect([room.names().includes('store_recovered'), store.findCommand('waiting')?.stage, held.calls.length]).toEqual([false, 'ended', 1]);
  });

  it('tells the result of what was delivered though it cannot be kept, and keeps it as soon as it can', async () => {
    refuse('ended');
    stream.command('e1');
    (await held.call(0)).answer({ result: 'accepted' });
    expect(await stream.next('commandResult')).toMatchObject({ result: Code.COMMAND_RESULT_CODE_ACCEPTED });
    expect(store.findCommand('e1')?.stage).toBe('started');
    store.refuses = undefined;
    stream.ackResult('e1');
    await room.event('command_acknowledged');
    await gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } }); // what waits rides with it
    await room.event('store_recovered');
    expect(store.findCommand('e1')).toMatchObject({ stage: 'acknowledged', result: Code.COMMAND_RESULT_CODE_ACCEPTED });
  });
});
