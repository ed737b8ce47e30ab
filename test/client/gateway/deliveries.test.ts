import { status } from '@grpc/grpc-js';
import { type Gateway, GatewayError } from '../../../src/client/gateway';
import { CommandResultCode as Code, CommandSnapshotStatus } from '../../../src/gen/gateway/v1/gateway_service';
import type { FakeStream } from '../../support/fakePlantroom';
import { GatewayFixture, HeldDeliveries, ShakyStore } from './gatewayFixture';

const SHORT = { expiresIn: { seconds: 0, nanos: 60_000_000 } };

describe('gateway deadlines, cancellations and delivery failures', () => {
  let fixture: GatewayFixture;
  let held: HeldDeliveries;

  beforeEach(async () => {
    fixture = new GatewayFixture();
    held = new HeldDeliveries();
    await fixture.open();
  });
  afterEach(async () => await fixture.close());

  it('delivers the commands of a device in order and one at a time, other devices in parallel, up to the limit', async () => {
    fixture.start({ deliver: held.deliver, maxConcurrentDeliveries: 2 });
    const stream = await fixture.attached();
    for (const [id, device] of [
      ['a1', 'a'],
      ['a2', 'a'],
      ['b1', 'b'],
      ['c1', 'c'],
      ['a3', 'a'],
    ] as const)
      stream.command(id, { clientDeviceId: device });
    await held.call(1);
    expect(held.calls.map(({ command }) => command.executionId)).toEqual(['a1', 'b1']);
    held.calls[0]?.answer({ result: 'accepted' });
    expect((await held.call(2)).command.executionId).toBe('c1'); // The lanes alternate.
    held.calls[2]?.answer({ result: 'accepted' });
    expect((await held.call(3)).command.executionId).toBe('a2');
    held.calls[3]?.answer({ result: 'accepted' });
    expect((await held.call(4)).command.executionId).toBe('a3');
  });

  it('answers EXPIRED at the deadline of a waiting command, and never delivers it then', async () => {
    fixture.start({ deliver: held.deliver });
    const stream = await fixture.attached();
    stream.command('first');
    stream.command('second', SHORT);
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'second',
      result: Code.COMMAND_RESULT_CODE_EXPIRED,
      code: 'expired',
    });
    held.calls[0]?.answer({ result: 'accepted' });
    expect(await stream.next('commandResult', stream.messages.length)).toMatchObject({ executionId: 'first' });
    expect(held.calls.length).toBe(1);
  });

  it('answers EXPIRED to a late command, and to one without a deadline', async () => {
    fixture.start({ deliver: held.deliver });
    const stream = await fixture.attached();
    stream.command('late', { expiresIn: { seconds: -1, nanos: 0 } });
    stream.command('endless', { expiresIn: undefined, clientDeviceId: 'valve-2' });
    await fixture.event('command_answered', 1);
    expect(fixture.events.filter(({ event }) => event === 'command_answered')).toMatchObject([
      { result: 'expired' },
      { result: 'expired' },
    ]);
    expect(held.calls.length).toBe(0);
  });

  it('uses the server clock for the deadline if expires_in is missing, regardless of the local time', async () => {
    fixture.start({ deliver: held.deliver });
    const stream = await fixture.server.stream(0);
    stream.send({
      $case: 'welcome',
      value: { serverTime: { seconds: 1000, nanos: 0 }, maxInFlight: 16, protocolVersion: 1, serverVersion: '0.2.0' },
    });
    stream.command('gone', { expiresIn: undefined, deadline: { seconds: 999, nanos: 0 } });
    stream.command('due', { expiresIn: undefined, deadline: { seconds: 1060, nanos: 0 }, clientDeviceId: 'valve-2' });
    expect((await held.call(0)).command.executionId).toBe('due');
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'gone',
      result: Code.COMMAND_RESULT_CODE_EXPIRED,
    });
  });

  it('expires commands while it is detached, and reports that after it attaches', async () => {
    fixture.start({ deliver: held.deliver });
    const first = await fixture.attached();
    first.command('first');
    first.command('second', SHORT);
    await first.next('commandReceived', 2);
    first.fail(status.UNAVAILABLE, 'gone');
    const second = await fixture.server.stream(1);
    await fixture.event('command_answered'); // This happens before the welcome.
    second.welcome();
    expect(await second.next('commandResult')).toMatchObject({
      executionId: 'second',
      result: Code.COMMAND_RESULT_CODE_EXPIRED,
    });
  });

  it('continues after a restart: delivers pending commands, answers EXPIRED or NO_ANSWER to the rest, and delivers nothing twice', async () => {
    const store = new ShakyStore();
    const before = fixture.start({ deliver: held.deliver, store });
    const first = await fixture.attached();
    first.command('begun');
    for (const executionId of ['waiting', 'stale']) first.command(executionId);
    first.command('brief', SHORT);
    await first.next('commandReceived', 4);
    await held.call(0);
    store.isKilled = true;
    await before.stop(0);
    store.isKilled = false;
    store.transformCommand = (command) =>
      command.executionId === 'stale' ? { ...command, machineStart: 'before' } : command;
    await new Promise((resolve) => setTimeout(resolve, 60)); // Waits until the deadline of `brief` has passed.
    fixture.start({ deliver: held.deliver, store });
    const second = await fixture.server.stream(1);
    expect(
      (await second.next('hello')).known.map(({ executionId, status, code }) => [
        executionId,
        CommandSnapshotStatus[status],
        code,
      ]),
    ).toEqual([
      ['begun', 'COMMAND_SNAPSHOT_STATUS_NO_ANSWER', 'gateway_restarted'],
      ['waiting', 'COMMAND_SNAPSHOT_STATUS_RECEIVED', ''],
      ['stale', 'COMMAND_SNAPSHOT_STATUS_EXPIRED', 'expired'],
      ['brief', 'COMMAND_SNAPSHOT_STATUS_EXPIRED', 'expired'],
    ]);
    expect((await held.call(1)).command.executionId).toBe('waiting');
    expect(held.calls.length).toBe(2);
  });

  it('drops a command cancelled before its delivery, and cancels a running delivery', async () => {
    fixture.start({ deliver: held.deliver });
    const stream = await fixture.attached();
    stream.command('first');
    stream.command('second');
    await stream.next('commandReceived', 2);
    stream.send({ $case: 'cancelCommand', value: { executionId: 'second' } });
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'second',
      result: Code.COMMAND_RESULT_CODE_UNREACHABLE,
      code: 'cancelled',
    });
    const { delivery, answer } = await held.call(0);
    stream.send({ $case: 'cancelCommand', value: { executionId: 'first' } });
    await new Promise((resolve) => delivery.signal.addEventListener('abort', resolve));
    answer({ result: 'accepted' });
    expect(await stream.next('commandResult', 4)).toMatchObject({
      executionId: 'first',
      result: Code.COMMAND_RESULT_CODE_ACCEPTED,
    });
    expect(held.calls.length).toBe(1);
  });

  it('answers NO_ANSWER if deliver throws or returns an invalid result; truncates long texts', async () => {
    const answers = [
      async () => await Promise.reject(new Error('the bus is down')),
      () => ({ result: 'done' }),
      () => undefined,
      () => ({ result: 'rejected', code: 'c'.repeat(500), message: 'm'.repeat(5000), time: new Date(Number.NaN) }),
    ] as unknown as (() => { result: 'accepted' })[];
    fixture.start({ deliver: () => (answers.shift() as () => { result: 'accepted' })() });
    const stream = await fixture.attached();
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
      {
        result: Code.COMMAND_RESULT_CODE_REJECTED,
        code: 'c'.repeat(128),
        message: 'm'.repeat(2000),
        time: { seconds: expect.any(Number) },
      },
    ]);
  });

  it('answers NO_ANSWER after a delivery timeout, continues with the device, and only logs the late result', async () => {
    fixture.start({ deliver: held.deliver, deliveryTimeoutMs: 20 });
    const stream = await fixture.attached();
    stream.command('slow');
    const { delivery, answer } = await held.call(0);
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'slow',
      result: Code.COMMAND_RESULT_CODE_NO_ANSWER,
      code: 'delivery_timeout',
    });
    expect(delivery.signal.aborted).toBe(true);
    const messagesSoFar = stream.messages.length;
    answer({ result: 'accepted' });
    expect(await fixture.event('delivery_too_late')).toMatchObject({ executionId: 'slow', result: 'accepted' });
    stream.command('next');
    (await held.call(1)).answer({ result: 'accepted' });
    await stream.next('commandResult', messagesSoFar);
    expect(
      stream.messages.slice(messagesSoFar).map(({ value }) => (value as { executionId: string }).executionId),
    ).toEqual(['next', 'next']);
  });

  it('treats a result as sent regardless of its outcome on the server', async () => {
    fixture.start();
    const stream = await fixture.attached();
    for (const [id, outcome] of [
      ['e1', 2],
      ['e2', 3],
      ['e3', 4],
    ] as const) {
      stream.command(id);
      await stream.next('commandResult', stream.messages.length);
      const reason = outcome === 4 ? 'validation_failed: no' : '';
      stream.send({ $case: 'commandResultAck', value: { executionId: id, outcome, reason } });
    }
    await fixture.event('command_acknowledged', 2);
    stream.send({ $case: 'messageRejected', value: { executionId: 'e4', reason: 'validation_failed: no' } });
    await fixture.event('message_rejected');
    stream.fail(status.UNAVAILABLE, 'gone');
    expect(await (await fixture.server.stream(1)).next('hello')).toMatchObject({ known: [] });
    expect(fixture.events.filter(({ event }) => event === 'command_acknowledged')).toMatchObject([
      { outcome: 'late' },
      { outcome: 'unknown' },
      { outcome: 'rejected', reason: 'validation_failed: no' },
    ]);
  });

  it('stores as many commands as Hello can list, and rejects more', async () => {
    const answered = new Promise((resolve) =>
      fixture.start({
        deliver: held.deliver,
        maxConcurrentDeliveries: 1,
        onEvent: (event) => event.event === 'command_answered' && resolve(event),
      }),
    );
    const stream = await fixture.attached();
    for (let n = 0; n <= 10_000; n++) stream.command(`e${n}`);
    expect(await answered).toMatchObject({ executionId: 'e10000', result: 'refused', code: 'gateway_full' });
    stream.fail(status.UNAVAILABLE, 'gone');
    expect((await (await fixture.server.stream(1)).next('hello')).known.length).toBe(10_000);
    expect(held.calls.length).toBe(1);
  });

  it('sends a result again if it is unacknowledged for half a minute', async () => {
    jest.useFakeTimers({
      doNotFake: [
        'setTimeout',
        'clearTimeout',
        'setImmediate',
        'clearImmediate',
        'nextTick',
        'queueMicrotask',
        'performance',
        'Date',
        'hrtime',
      ],
    });
    try {
      fixture.start();
      const stream = await fixture.attached();
      stream.command('e1');
      stream.command('e2');
      await stream.result('e1');
      await stream.result('e2');
      stream.ackResult('e2');
      await fixture.event('command_acknowledged');
      const messagesSoFar = stream.messages.length;
      await jest.advanceTimersByTimeAsync(30_000);
      await stream.result('e1', messagesSoFar);
      expect(stream.messages.slice(messagesSoFar).map(({ $case }) => $case)).toEqual(['commandResult']);
    } finally {
      jest.useRealTimers();
    }
  });

  it('sends thousands of results as fast as the network allows, without their texts in Hello, which would be too long', async () => {
    const store = new ShakyStore();
    store.open({ connectionId: 'connection-1', gatewayId: undefined });
    const ended = {
      stage: 'ended',
      message: new Uint8Array(0),
      expiresAtUptimeMs: 0,
      machineStart: '',
      time: 1,
      result: Code.COMMAND_RESULT_CODE_REJECTED,
      code: 'c',
      text: 'm'.repeat(300),
    } as const;
    store.apply(
      Array.from(
        { length: 3000 },
        (_, n) => ({ kind: 'command', command: { executionId: `e${n}`, ...ended } }) as const,
      ),
    );
    store.close();
    fixture.start({ store });
    const stream = await fixture.attached();
    const { known } = await stream.next('hello');
    expect([
      known.length,
      known.every(
        ({ status: found, code, message }) =>
          found === CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_REJECTED && code === '' && message === '',
      ),
    ]).toEqual([3000, true]);
    await stream.result('e2999');
    const results = stream.messages.flatMap(({ $case, value }) => ($case === 'commandResult' ? [value] : []));
    expect([
      new Set(results.map(({ executionId }) => executionId)).size,
      results.length,
      results.at(-1)?.message.length,
    ]).toEqual([3000, 3000, 300]);
  });

  it('can skip the receipt', async () => {
    fixture.start({ sendReceipts: false });
    const stream = await fixture.attached();
    stream.command('e1');
    await stream.next('commandResult');
    expect(stream.messages.map(({ $case }) => $case)).not.toContain('commandReceived');
  });
});

describe('a store that does not accept commands', () => {
  let fixture: GatewayFixture;
  let store: ShakyStore;
  let stream: FakeStream;
  let held: HeldDeliveries;
  let gateway: Gateway;

  beforeEach(async () => {
    fixture = new GatewayFixture();
    store = new ShakyStore();
    held = new HeldDeliveries();
    await fixture.open();
    gateway = fixture.start({ store, deliver: held.deliver });
    stream = await fixture.server.stream(0);
    stream.welcome();
    await fixture.event('attached');
  });
  afterEach(async () => await fixture.close());

  /** Starts a delivery that does not finish, and sends a command that waits for it. */
  async function keepWaiting(): Promise<void> {
    stream.command('begun');
    await held.call(0);
    stream.command('waiting');
    await stream.next('commandReceived', 2);
  }

  function rejectStage(stage: string): void {
    store.shouldReject = (change) => change.kind === 'command' && change.command.stage === stage;
  }

  it.each(['store_full', 'store_failed'] as const)('rejects a command that it cannot store: %s', async (reason) => {
    store.reason = reason;
    rejectStage('started');
    stream.command('e1');
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'e1',
      result: Code.COMMAND_RESULT_CODE_REFUSED,
      code: `gateway_${reason}`,
    });
    expect(stream.messages.map(({ $case }) => $case)).toEqual(['hello', 'commandResult']);
    stream.ackResult('e1');
    await fixture.event('command_acknowledged');
    expect([held.calls.length, store.log.length, fixture.names()]).toEqual([
      0,
      0,
      ['attached', 'command_taken', 'store_failing', 'command_answered', 'command_acknowledged'],
    ]);
  });

  it('answers NO_ANSWER without a delivery if the store is unreadable', async () => {
    jest.spyOn(store, 'findCommand').mockImplementation(() => {
      throw new GatewayError('store_failed', 'the disk is gone');
    });
    stream.command('e1');
    expect(await stream.result('e1')).toMatchObject({
      result: Code.COMMAND_RESULT_CODE_NO_ANSWER,
      code: 'gateway_store_failed',
    });
    expect(held.calls.length).toBe(0);
  });

  it('rejects a command that it cannot store until its turn', async () => {
    rejectStage('received');
    stream.command('begun');
    await held.call(0);
    stream.command('waiting');
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'waiting',
      result: Code.COMMAND_RESULT_CODE_REFUSED,
      code: 'gateway_store_full',
    });
    expect([held.calls.length, store.findCommand('waiting')]).toEqual([1, undefined]);
  });

  it('does not deliver a waiting command if it cannot store the start, and reports that once a restart could not deliver it either', async () => {
    await keepWaiting();
    rejectStage('started');
    held.calls[0]?.answer({ result: 'accepted' });
    expect(await stream.result('waiting')).toMatchObject({
      result: Code.COMMAND_RESULT_CODE_UNREACHABLE,
      code: 'gateway_store_full',
    });
    expect([held.calls.length, store.findCommand('waiting')?.stage]).toEqual([1, 'ended']);
  });

  it('holds the result of an undelivered command until it is stored, however long uplinks are rejected', async () => {
    await keepWaiting();
    store.shouldReject = (change) =>
      change.kind === 'uplink' || (change.kind === 'command' && change.command.executionId === 'waiting');
    stream.send({ $case: 'cancelCommand', value: { executionId: 'waiting' } });
    await fixture.event('store_failing');
    await new Promise((resolve) => setImmediate(resolve));
    expect(stream.messages.map(({ $case }) => $case)).not.toContain('commandResult');
    store.shouldReject = ({ kind }) => kind === 'uplink';
    await expect(gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } })).rejects.toMatchObject({
      reason: 'store_full',
    });
    expect(await stream.next('commandResult')).toMatchObject({
      executionId: 'waiting',
      result: Code.COMMAND_RESULT_CODE_UNREACHABLE,
      code: 'cancelled',
    });
    expect([
      fixture.names().includes('store_recovered'),
      store.findCommand('waiting')?.stage,
      held.calls.length,
    ]).toEqual([false, 'ended', 1]);
  });

  it('sends the result of a delivered command before it is stored, and stores it as soon as possible', async () => {
    rejectStage('ended');
    stream.command('e1');
    (await held.call(0)).answer({ result: 'accepted' });
    expect(await stream.next('commandResult')).toMatchObject({ result: Code.COMMAND_RESULT_CODE_ACCEPTED });
    expect(store.findCommand('e1')?.stage).toBe('started');
    store.shouldReject = undefined;
    stream.ackResult('e1');
    await fixture.event('command_acknowledged');
    // Pending changes are written in the same transaction.
    await gateway.send({ clientDeviceId: 'a', payload: { kind: 'json', value: {} } });
    await fixture.event('store_recovered');
    expect(store.findCommand('e1')).toMatchObject({ stage: 'acknowledged', result: Code.COMMAND_RESULT_CODE_ACCEPTED });
  });
});
