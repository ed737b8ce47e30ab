import type { Command, ResultOutcome, Welcome } from '../../gen/gateway/v1/gateway_service';
import type { KeptCommand } from '../store/gatewayStore';
import { ChangesUnderWay } from './changesUnderWay';
import { commandBytes, commandShown, findOutcomeName, keptMessage, resultMessage } from './commandMessages';
import { expiryOf, isFromOtherStart } from './deadline';
import { Deliverer, type DelivererOptions, unkept } from './deliverer';
import { emptyCommand, keptCommand, newCommand, type OpenCommand } from './openCommand';
import { expired, outcome, type Outcome } from './outcome';
import { Results, type Stream } from './results';
import { ServerClock } from './serverClock';

/** What the desk stands on. */
export interface CommandDeskOptions extends Omit<DelivererOptions, 'changes' | 'results' | 'onKept'> {
  readonly withoutReceipts: boolean;
  /** What nobody reckoned with. */
  readonly fail: (error: unknown) => void;
}

/** As many as Hello can list. */
const MOST_OPEN = 10_000;

/**
 * Every command from its arrival to the acknowledgement of its result. It is kept before the server is told: as `started` where its turn comes at
 * once, which saves a wait for the disk, else as `received`. `started` is kept before `deliver` is called, the result before it leaves; so whatever
 * happens to the process, a device is told at most once, and what the server is told is so.
 */
export class CommandDesk {
  private readonly open = new Map<string, OpenCommand>();
  private readonly changes: ChangesUnderWay;
  private readonly deliverer: Deliverer;
  private readonly results: Results;
  private stream: Stream | undefined;
  private server = new ServerClock();

  constructor(private readonly options: CommandDeskOptions) {
    const { writer, report } = options;
    this.changes = new ChangesUnderWay(options.fail);
    this.results = new Results({ writer, report, changes: this.changes, open: this.open });
    this.deliverer = new Deliverer({ ...options, changes: this.changes, results: this.results, onKept: (command) => this.kept(command) });
  }

  /** Goes on with what an earlier start left. Throws GatewayError of the store. */
  resume(): void {
    for (const kept of this.options.store.openCommands()) {
      if (kept.stage === 'received') this.resumeWaiting(kept);
      else if (kept.stage === 'started') this.results.settle(this.add(kept), outcome('no_answer', 'gateway_restarted', 'the gateway restarted while the command was under way'));
      else this.add(kept);
    }
  }

  /** What Hello is to tell: every open command, and whether its result may be told. Waits until what is being kept is kept. */
  async known(): Promise<readonly { readonly kept: KeptCommand; readonly isTold: boolean }[]> {
    await this.changes.done();
    return [...this.open.values()].map(({ kept, isTellable }) => ({ kept, isTold: isTellable }));
  }

  /** The server welcomed the gateway. Hello told the results already; only `command_result` is acknowledged. */
  attach(stream: Stream, { serverTime }: Welcome): void {
    this.stream = stream;
    this.server = new ServerClock();
    if (serverTime) this.server.saw(serverTime.getTime(), this.options.clock.earliest());
    this.results.attach(stream);
  }

  /** There is room on the stream. */
  roomMade(): void {
    this.results.roomMade();
  }

  /** The stream ended. */
  detach(): void {
    this.stream = undefined;
    this.results.detach();
  }

  /** A command came. One that is known is told of, never done again. */
  take(message: Command): void {
    const { executionId } = message;
    const open = this.open.get(executionId);
    if (open) return this.repeat(message, () => this.tell(open));
    let past: KeptCommand | undefined;
    try {
      past = this.options.store.findCommand(executionId);
    } catch (error) {
      return this.refuse(message, unkept('no_answer', error, 'the store could not be asked whether it was done before'));
    }
    if (past) this.repeat(message, () => this.tellPast(past));
    else this.receive(message);
  }

  /** The execution ended on the server: what has not begun is dropped, what has is told to end. Of a command that has ended the server has the result, or it is on its way. */
  withdraw(executionId: string): void {
    const command = this.open.get(executionId);
    if (!command || command.kept.stage === 'ended') return;
    this.options.report({ event: 'command_withdrawn', executionId });
    this.deliverer.withdraw(command);
  }

  /** The server has a result. Where it does not say anything known of it, or was not told one, nothing is forgotten. */
  acknowledge(executionId: string, found: ResultOutcome): void {
    const outcome = findOutcomeName(found);
    const command = this.open.get(executionId);
    if (outcome === undefined || command?.isTellable === false) return;
    this.options.report({ event: 'command_acknowledged', executionId, outcome });
    this.open.delete(executionId);
    if (command?.isKept) this.options.writer.writeLater({ kind: 'command_acknowledged', executionId });
  }

  /** Begins no delivery any more. */
  stop(): void {
    this.deliverer.stop(this.open.values());
  }

  /** Ends what is being delivered: what it knows at once is told, the rest as `no_answer`. */
  async giveUp(): Promise<void> {
    await this.deliverer.giveUp();
    await this.changes.done();
  }

  /** Waits for nothing any more. */
  close(): void {
    for (const { timer } of this.open.values()) clearTimeout(timer);
  }

  /** Whether something is being delivered or kept, or the server has not acknowledged a result that it can be told. */
  isBusy(): boolean {
    return this.deliverer.count > 0 || this.changes.count > 0 || (this.stream !== undefined && [...this.open.values()].some(({ isTellable }) => isTellable));
  }

  private add(kept: KeptCommand, clientDeviceId = ''): OpenCommand {
    const command = keptCommand(kept, clientDeviceId);
    this.open.set(kept.executionId, command);
    return command;
  }

  private resumeWaiting(kept: KeptCommand): void {
    let message: Command;
    try {
      message = keptMessage(kept);
    } catch (error) {
      return this.results.settle(this.add(kept), unkept('unreachable', error, 'it waited when the gateway stopped'));
    }
    const command = this.add(kept, message.clientDeviceId);
    if (isFromOtherStart(kept, message, this.options.clock)) this.results.settle(command, expired('the machine restarted, so that its deadline is not known'));
    else this.deliverer.resume(command);
  }

  private repeat(message: Command, tell: () => void): void {
    this.options.report({ event: 'command_repeated', ...commandShown(message) });
    tell();
  }

  private receive(message: Command): void {
    if (this.open.size >= MOST_OPEN) return this.refuse(message, outcome('refused', 'gateway_full', `the gateway holds ${MOST_OPEN} commands that are not done`));
    const { clock, report } = this.options;
    const kept: KeptCommand = {
      ...emptyCommand(message.executionId),
      message: commandBytes(message),
      expiresAtUptimeMs: expiryOf(message, clock, this.server),
      machineStart: clock.machineStart,
    };
    const command = newCommand(kept, message.clientDeviceId);
    this.open.set(kept.executionId, command);
    report({ event: 'command_taken', ...commandShown(message) });
    this.deliverer.take(command);
  }

  /** It is on disk: now the server may know. */
  private kept(command: OpenCommand): void {
    command.isKept = true;
    this.tell(command);
  }

  /** It is not kept, and so not done by this call; told until it is acknowledged. */
  private refuse(message: Command, found: Outcome): void {
    const { executionId, clientDeviceId } = message;
    const command = newCommand(emptyCommand(executionId), clientDeviceId);
    if (this.open.size < MOST_OPEN) this.open.set(executionId, command);
    this.options.report({ event: 'command_taken', ...commandShown(message) });
    this.results.tellUnkept(command, found);
  }

  /** What is known of an open command; of one that is being kept nothing yet. */
  private tell(command: OpenCommand): void {
    if (command.isTellable) return this.results.tell(command);
    const { executionId, time } = command.kept;
    if (command.isKept && !this.options.withoutReceipts) this.stream?.send({ $case: 'commandReceived', value: { executionId, time: new Date(time) } });
  }

  /** Of a command that the server has the result of. */
  private tellPast(kept: KeptCommand): void {
    if (kept.result !== 0) this.stream?.send({ $case: 'commandResult', value: resultMessage(kept) });
  }
}
