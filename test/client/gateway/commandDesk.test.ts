import { CommandDesk } from '../../../src/client/gateway/commands/commandDesk';
import { StoreWriter } from '../../../src/client/gateway/store/storeWriter';
import { type AttachRequest, Command, CommandResultCode as Code } from '../../../src/client/gen/gateway/v1/gateway_service';
import { HeldDeliveries, ShakyStore } from './gatewayRoom';

/** A desk without a network: what a test does right after `take` happens exactly while the command is being kept. */
class DeskRoom {
  readonly held = new HeldDeliveries();
  readonly failures: unknown[] = [];
  now = 0;
  readonly desk: CommandDesk;
  private readonly writer: StoreWriter;
  private readonly told: { readonly executionId: string; readonly what: string }[] = [];

  constructor(readonly store = new ShakyStore()) {
    this.writer = new StoreWriter({ store, onFailing: () => {}, onRecovered: () => {} });
    this.desk = new CommandDesk({
      store,
      writer: this.writer,
      clock: { machineStart: 'start-1', earliest: () => this.now, latest: () => this.now },
      deliver: this.held.deliver,
      deliveriesAtOnce: 4,
      deliveryTimeoutMs: 60_000,
      withoutReceipts: false,
      report: () => {},
      fail: (error) => this.failures.push(error),
    });
    store.open({ connectionId: 'connection-1', gatewayId: undefined });
    this.desk.attach({ send: (message) => this.hear(message), hasRoom: true }, { serverTime: undefined, maxInFlight: 16, protocolVersion: 1, serverVersion: '' });
  }

  take(executionId: string, seconds = 60): void {
    this.desk.take(Command.fromPartial({ executionId, attempt: 1, expiresIn: { seconds, nanos: 0 }, clientDeviceId: 'valve-1', payload: { $case: 'json', value: 40 } }));
  }

  /** One that is being delivered, so that the next one waits. */
  async keepBusy(): Promise<void> {
    this.take('busy');
    await this.held.call(0);
  }

  /** What became of a command once all is kept: its stages in the store, what the server was told of it, and whether it was delivered. */
  async fate(executionId: string): Promise<{ readonly kept: string[]; readonly told: string[]; readonly isDelivered: boolean }> {
    await this.desk.known();
    const kept = this.store.log.flatMap((change) => (change.kind === 'command' && change.command.executionId === executionId ? [change.command.stage] : []));
    return { kept, told: this.told.filter((one) => one.executionId === executionId).map(({ what }) => what), isDelivered: this.held.calls.some(({ command }) => command.executionId === executionId) };
  }

  async end(): Promise<void> {
    this.desk.stop();
    await this.desk.giveUp();
    this.desk.detach();
    this.desk.close();
    this.writer.close();
    expect(this.failures).toEqual([]);
  }

  private hear(message: NonNullable<AttachRequest['message']>): void {
    if (message.$case === 'commandReceived') this.told.push({ executionId: message.value.executionId, what: 'received' });
    if (message.$case === 'commandResult') this.told.push({ executionId: message.value.executionId, what: `${Code[message.value.result].replace('COMMAND_RESULT_CODE_', '')} ${message.value.code}` });
  }
}

describe('what happens while a command is being kept', () => {
  let room: DeskRoom;
  beforeEach(() => (room = new DeskRoom()));
  afterEach(async () => await room.end());

  it('it is withdrawn: it is not delivered, neither where its turn came at once nor where it was to wait', async () => {
    room.take('first');
    room.desk.withdraw('first');
    expect(await room.fate('first')).toEqual({ kept: ['started', 'ended'], told: ['received', 'UNREACHABLE withdrawn'], isDelivered: false });
    room.take('busy');
    await room.held.call(0);
    room.take('second');
    room.desk.withdraw('second');
    expect(await room.fate('second')).toEqual({ kept: ['received', 'ended'], told: ['received', 'UNREACHABLE withdrawn'], isDelivered: false });
  });

  it('the gateway stops: what was to begin is answered, what was to wait waits for the next start', async () => {
    await room.keepBusy();
    const timers = jest.spyOn(globalThis, 'setTimeout');
    room.take('waiting');
    room.desk.stop();
    expect(await room.fate('waiting')).toEqual({ kept: ['received'], told: ['received'], isDelivered: false });
    room.take('late');
    expect(await room.fate('late')).toEqual({ kept: ['received'], told: ['received'], isDelivered: false });
    expect(timers).not.toHaveBeenCalled(); // it would hold the process
    timers.mockRestore();
    await room.end();
    room = new DeskRoom();
    room.take('beginning');
    room.desk.stop();
    expect(await room.fate('beginning')).toEqual({ kept: ['started', 'ended'], told: ['received', 'UNREACHABLE gateway_stopped'], isDelivered: false });
  });

  it('the gateway stops and its store is in memory: all is answered', async () => {
    await room.end();
    room = new DeskRoom(new ShakyStore(false));
    await room.keepBusy();
    room.take('waiting');
    room.desk.stop();
    expect(await room.fate('waiting')).toEqual({ kept: ['received', 'ended'], told: ['received', 'UNREACHABLE gateway_stopped'], isDelivered: false });
  });

  it('its deadline passes: it is not delivered', async () => {
    room.take('first', 1);
    room.now = 1000;
    expect(await room.fate('first')).toEqual({ kept: ['started', 'ended'], told: ['received', 'EXPIRED expired'], isDelivered: false });
    await room.keepBusy();
    room.take('second', 1);
    room.now = 2000;
    expect(await room.fate('second')).toEqual({ kept: ['received', 'ended'], told: ['received', 'EXPIRED expired'], isDelivered: false });
  });

  it('its turn comes: it is kept first all the same', async () => {
    await room.keepBusy();
    room.take('next');
    room.held.calls[0]?.answer({ result: 'accepted' });
    await room.held.call(1);
    expect(await room.fate('next')).toEqual({ kept: ['received', 'started'], told: ['received'], isDelivered: true });
  });

  it('the store refuses it, and it is withdrawn or comes again meanwhile: it is refused once', async () => {
    room.store.refuses = () => true;
    room.take('e1');
    room.take('e1');
    room.desk.withdraw('e1');
    expect(await room.fate('e1')).toEqual({ kept: [], told: ['REFUSED gateway_store_full'], isDelivered: false });
  });

  it('the server acknowledges what it was not told, or with an outcome that is not known: nothing is forgotten', async () => {
    room.take('e1');
    room.desk.acknowledge('e1', 1);
    (await room.held.call(0)).answer({ result: 'accepted' });
    await new Promise((resolve) => setImmediate(resolve));
    for (const outcome of [0, 99]) room.desk.acknowledge('e1', outcome);
    expect(await room.desk.known()).toHaveLength(1);
    expect(await room.fate('e1')).toEqual({ kept: ['started', 'ended'], told: ['received', 'ACCEPTED '], isDelivered: true });
  });

  it('keeps what expired before it came with its answer at once', async () => {
    room.take('e1', 0);
    expect(await room.fate('e1')).toEqual({ kept: ['ended'], told: ['EXPIRED expired'], isDelivered: false });
    room.desk.acknowledge('e1', 1);
    await room.end();
    expect(room.store.findCommand('e1')?.stage).toBe('acknowledged');
  });
});

describe('what an earlier start left', () => {
  it('is not delivered where the clock was set back meanwhile, as in a container that restarted', async () => {
    const before = new DeskRoom();
    before.now = 500_000;
    await before.keepBusy();
    before.take('waiting', 2);
    await before.fate('waiting');
    before.store.isKilled = true;
    await before.end();
    before.store.isKilled = false;
    before.store.close();
    const room = new DeskRoom(before.store);
    room.now = 3000;
    room.desk.resume();
    expect(await room.fate('waiting')).toMatchObject({ kept: ['received', 'ended'], isDelivered: false });
    expect(room.store.findCommand('waiting')?.result).toBe(Code.COMMAND_RESULT_CODE_EXPIRED);
    await room.end();
  });

  it('and cannot be read is answered by how far it came, and the others go on', async () => {
    const before = new DeskRoom();
    await before.keepBusy();
    for (const executionId of ['rotten', 'sound']) before.take(executionId);
    await before.fate('sound');
    before.store.isKilled = true;
    await before.end();
    before.store.isKilled = false;
    before.store.close();
    before.store.aged = (command) => (command.executionId === 'sound' ? command : { ...command, message: new Uint8Array([0xff, 0xff]) });
    const room = new DeskRoom(before.store);
    room.desk.resume();
    expect((await room.held.call(0)).command.executionId).toBe('sound');
    expect((await room.desk.known()).map(({ kept: { executionId, result, code } }) => [executionId, Code[result], code])).toEqual([
      ['busy', 'COMMAND_RESULT_CODE_NO_ANSWER', 'gateway_restarted'],
      ['rotten', 'COMMAND_RESULT_CODE_UNREACHABLE', 'gateway_store_damaged'],
      ['sound', 'COMMAND_RESULT_CODE_UNSPECIFIED', ''],
    ]);
    await room.end();
  });
});
