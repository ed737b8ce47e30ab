import { CommandProcessor } from '../../../src/client/gateway/commands/commandProcessor';
import { StoreWriter } from '../../../src/client/gateway/store/storeWriter';
import {
  type AttachRequest,
  Command,
  CommandResultCode as Code,
} from '../../../src/client/gen/gateway/v1/gateway_service';
import { HeldDeliveries, ShakyStore } from './gatewayFixture';

/** A desk without a network: a test action right after `take` runs exactly while the command is being stored. */
class DeskFixture {
  readonly held = new HeldDeliveries();
  readonly failures: unknown[] = [];
  now = 0;
  readonly desk: CommandProcessor;
  private readonly writer: StoreWriter;
  private readonly sent: { readonly executionId: string; readonly content: string }[] = [];

  constructor(readonly store = new ShakyStore()) {
    this.writer = new StoreWriter({ store, onFailing: () => {}, onRecovered: () => {} });
    this.desk = new CommandProcessor({
      store,
      writer: this.writer,
      clock: { machineStart: 'start-1', earliest: () => this.now, latest: () => this.now },
      deliver: this.held.deliver,
      maxConcurrentDeliveries: 4,
      deliveryTimeoutMs: 60_000,
      sendReceipts: true,
      report: () => {},
      fail: (error) => this.failures.push(error),
    });
    store.open({ connectionId: 'connection-1', gatewayId: undefined });
    this.desk.attach(
      { send: (message) => this.recordMessage(message), isWritable: true },
      { serverTime: undefined, maxInFlight: 16, protocolVersion: 1, serverVersion: '' },
    );
  }

  take(executionId: string, seconds = 60): void {
    this.desk.receive(
      Command.fromPartial({
        executionId,
        attempt: 1,
        expiresIn: { seconds, nanos: 0 },
        clientDeviceId: 'valve-1',
        payload: { $case: 'json', value: 40 },
      }),
    );
  }

  /** Starts a delivery that does not finish, so that the next command waits. */
  async keepBusy(): Promise<void> {
    this.take('busy');
    await this.held.call(0);
  }

  /**
   * Waits until everything is stored. Returns the stages of a command in the store, the messages sent to the server,
   * and whether it was delivered.
   */
  async findOutcome(
    executionId: string,
  ): Promise<{ readonly storedStages: string[]; readonly sent: string[]; readonly isDelivered: boolean }> {
    await this.desk.getKnownCommands();
    const storedStages = this.store.log.flatMap((change) =>
      change.kind === 'command' && change.command.executionId === executionId ? [change.command.stage] : [],
    );
    return {
      storedStages,
      sent: this.sent.filter((message) => message.executionId === executionId).map(({ content: what }) => what),
      isDelivered: this.held.calls.some(({ command }) => command.executionId === executionId),
    };
  }

  async end(): Promise<void> {
    this.desk.stop();
    await this.desk.abortDeliveries();
    this.desk.detach();
    this.desk.close();
    this.writer.close();
    expect(this.failures).toEqual([]);
  }

  private recordMessage(message: NonNullable<AttachRequest['message']>): void {
    if (message.$case === 'commandReceived')
      this.sent.push({ executionId: message.value.executionId, content: 'received' });
    if (message.$case === 'commandResult')
      this.sent.push({
        executionId: message.value.executionId,
        content: `${Code[message.value.result].replace('COMMAND_RESULT_CODE_', '')} ${message.value.code}`,
      });
  }
}

describe('a command that is being stored', () => {
  let fixture: DeskFixture;
  beforeEach(() => (fixture = new DeskFixture()));
  afterEach(async () => await fixture.end());

  it('is not delivered if it is cancelled, neither if it would start immediately nor if it would wait', async () => {
    fixture.take('first');
    fixture.desk.cancelCommand('first');
    expect(await fixture.findOutcome('first')).toEqual({
      storedStages: ['started', 'ended'],
      sent: ['received', 'UNREACHABLE cancelled'],
      isDelivered: false,
    });
    fixture.take('busy');
    await fixture.held.call(0);
    fixture.take('second');
    fixture.desk.cancelCommand('second');
    expect(await fixture.findOutcome('second')).toEqual({
      storedStages: ['received', 'ended'],
      sent: ['received', 'UNREACHABLE cancelled'],
      isDelivered: false,
    });
  });

  it('is answered when the gateway stops if it would start now, and otherwise waits for the next start', async () => {
    await fixture.keepBusy();
    const timers = jest.spyOn(globalThis, 'setTimeout');
    fixture.take('waiting');
    fixture.desk.stop();
    expect(await fixture.findOutcome('waiting')).toEqual({
      storedStages: ['received'],
      sent: ['received'],
      isDelivered: false,
    });
    fixture.take('late');
    expect(await fixture.findOutcome('late')).toEqual({
      storedStages: ['received'],
      sent: ['received'],
      isDelivered: false,
    });
    expect(timers).not.toHaveBeenCalled(); // A timer would keep the process alive.
    timers.mockRestore();
    await fixture.end();
    fixture = new DeskFixture();
    fixture.take('beginning');
    fixture.desk.stop();
    expect(await fixture.findOutcome('beginning')).toEqual({
      storedStages: ['started', 'ended'],
      sent: ['received', 'UNREACHABLE gateway_stopped'],
      isDelivered: false,
    });
  });

  it('is answered when the gateway stops if the store is in memory', async () => {
    await fixture.end();
    fixture = new DeskFixture(new ShakyStore(false));
    await fixture.keepBusy();
    fixture.take('waiting');
    fixture.desk.stop();
    expect(await fixture.findOutcome('waiting')).toEqual({
      storedStages: ['received', 'ended'],
      sent: ['received', 'UNREACHABLE gateway_stopped'],
      isDelivered: false,
    });
  });

  it('is not delivered if its deadline passes', async () => {
    fixture.take('first', 1);
    fixture.now = 1000;
    expect(await fixture.findOutcome('first')).toEqual({
      storedStages: ['started', 'ended'],
      sent: ['received', 'EXPIRED expired'],
      isDelivered: false,
    });
    await fixture.keepBusy();
    fixture.take('second', 1);
    fixture.now = 2000;
    expect(await fixture.findOutcome('second')).toEqual({
      storedStages: ['received', 'ended'],
      sent: ['received', 'EXPIRED expired'],
      isDelivered: false,
    });
  });

  it('is stored first even if it can start now', async () => {
    await fixture.keepBusy();
    fixture.take('next');
    fixture.held.calls[0]?.answer({ result: 'accepted' });
    await fixture.held.call(1);
    expect(await fixture.findOutcome('next')).toEqual({
      storedStages: ['received', 'started'],
      sent: ['received'],
      isDelivered: true,
    });
  });

  it('is rejected once if the store fails, even if it is cancelled or sent again meanwhile', async () => {
    fixture.store.shouldReject = () => true;
    fixture.take('e1');
    fixture.take('e1');
    fixture.desk.cancelCommand('e1');
    expect(await fixture.findOutcome('e1')).toEqual({
      storedStages: [],
      sent: ['REFUSED gateway_store_full'],
      isDelivered: false,
    });
  });

  it('is not forgotten after an acknowledgement of an unsent result or of an unknown outcome', async () => {
    fixture.take('e1');
    fixture.desk.acknowledge({ executionId: 'e1', outcome: 1, reason: '' });
    (await fixture.held.call(0)).answer({ result: 'accepted' });
    await new Promise((resolve) => setImmediate(resolve));
    for (const outcome of [0, 99]) fixture.desk.acknowledge({ executionId: 'e1', outcome, reason: '' });
    expect(await fixture.desk.getKnownCommands()).toHaveLength(1);
    expect(await fixture.findOutcome('e1')).toEqual({
      storedStages: ['started', 'ended'],
      sent: ['received', 'ACCEPTED '],
      isDelivered: true,
    });
  });

  it('is stored together with its result if it expired before it arrived', async () => {
    fixture.take('e1', 0);
    expect(await fixture.findOutcome('e1')).toEqual({
      storedStages: ['ended'],
      sent: ['EXPIRED expired'],
      isDelivered: false,
    });
    fixture.desk.acknowledge({ executionId: 'e1', outcome: 1, reason: '' });
    await fixture.end();
    expect(fixture.store.findCommand('e1')?.stage).toBe('acknowledged');
  });
});

describe('a command from an earlier start', () => {
  it('is not delivered if the clock was set back meanwhile, as in a restarted container', async () => {
    const before = new DeskFixture();
    before.now = 500_000;
    await before.keepBusy();
    before.take('waiting', 2);
    await before.findOutcome('waiting');
    before.store.isKilled = true;
    await before.end();
    before.store.isKilled = false;
    before.store.close();
    const fixture = new DeskFixture(before.store);
    fixture.now = 3000;
    fixture.desk.resume();
    expect(await fixture.findOutcome('waiting')).toMatchObject({
      storedStages: ['received', 'ended'],
      isDelivered: false,
    });
    expect(fixture.store.findCommand('waiting')?.result).toBe(Code.COMMAND_RESULT_CODE_EXPIRED);
    await fixture.end();
  });

  it('is answered by its last stage if it is unreadable, and the others continue', async () => {
    const before = new DeskFixture();
    await before.keepBusy();
    for (const executionId of ['rotten', 'sound']) before.take(executionId);
    await before.findOutcome('sound');
    before.store.isKilled = true;
    await before.end();
    before.store.isKilled = false;
    before.store.close();
    before.store.transformCommand = (command) =>
      command.executionId === 'sound' ? command : { ...command, message: new Uint8Array([0xff, 0xff]) };
    const fixture = new DeskFixture(before.store);
    fixture.desk.resume();
    expect((await fixture.held.call(0)).command.executionId).toBe('sound');
    expect(
      (await fixture.desk.getKnownCommands()).map(({ stored: { executionId, result, code } }) => [
        executionId,
        Code[result],
        code,
      ]),
    ).toEqual([
      ['busy', 'COMMAND_RESULT_CODE_NO_ANSWER', 'gateway_restarted'],
      ['rotten', 'COMMAND_RESULT_CODE_UNREACHABLE', 'gateway_store_corrupt'],
      ['sound', 'COMMAND_RESULT_CODE_UNSPECIFIED', ''],
    ]);
    await fixture.end();
  });
});
