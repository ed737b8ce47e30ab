import type { Command, CommandResultAck, Welcome } from '../../gen/gateway/v1/gateway_service';
import type { StoredCommand } from '../store/gatewayStore';
import { PendingWrites } from './pendingWrites';
import {
  encodeCommand,
  toCommandSummary,
  findOutcomeName,
  decodeStoredMessage,
  buildResultMessage,
} from './commandMessages';
import { computeExpiry, isFromOtherStart } from './deadline';
import { CommandDispatcher, type CommandDispatcherOptions, createStoreFailureOutcome } from './commandDispatcher';
import { createReceivedCommand, restoreOpenCommand, createOpenCommand, type OpenCommand } from './openCommand';
import { createExpiredOutcome, createOutcome, type Outcome } from './outcome';
import { Results, type Stream } from './results';
import { ServerClock } from './serverClock';

/** Dependencies of CommandProcessor. */
export interface CommandProcessorOptions extends Omit<
  CommandDispatcherOptions,
  'pendingWrites' | 'results' | 'onStored'
> {
  readonly sendReceipts: boolean;
  /** Called for unexpected errors. */
  readonly fail: (error: unknown) => void;
}

/** The maximum number of commands in Hello. */
const MAX_OPEN_COMMANDS = 10_000;

/**
 * Processes every command from its arrival until its result is acknowledged. A command is stored before the server is
 * informed: as `started` if its delivery starts immediately, which saves one disk write, otherwise as `received`.
 * `started` is stored before `deliver` is called, and the result before it is sent. Therefore, even if the process is
 * killed, a command is delivered at most once, and what the server is told is true. A command is open until its result
 * is acknowledged, and settled when its result is set.
 */
export class CommandProcessor {
  private readonly openCommands = new Map<string, OpenCommand>();
  private readonly pendingWrites: PendingWrites;
  private readonly dispatcher: CommandDispatcher;
  private readonly results: Results;
  private stream: Stream | undefined;
  private serverClock = new ServerClock();

  constructor(private readonly options: CommandProcessorOptions) {
    const { writer, report } = options;
    this.pendingWrites = new PendingWrites(options.fail);
    this.results = new Results({ writer, report, pendingWrites: this.pendingWrites, openCommands: this.openCommands });
    this.dispatcher = new CommandDispatcher({
      ...options,
      pendingWrites: this.pendingWrites,
      results: this.results,
      onStored: (command) => this.handleStored(command),
    });
  }

  /**
   * Resumes the commands of an earlier start: waiting ones are queued again, and started ones get the result
   * `no_answer`, because it is unknown what reached the device. Throws the errors of the store.
   */
  resume(): void {
    for (const stored of this.options.store.openCommands()) {
      if (stored.stage === 'received') {
        this.resumeWaiting(stored);
      } else if (stored.stage === 'started') {
        this.results.settle(
          this.addStored(stored),
          createOutcome('no_answer', 'gateway_restarted', 'the gateway restarted during the delivery'),
        );
      } else {
        this.addStored(stored);
      }
    }
  }

  /**
   * Returns every open command for Hello. `hasResult`: Hello may contain its result, because the result is stored.
   * Waits for pending writes.
   */
  async getKnownCommands(): Promise<readonly { readonly stored: StoredCommand; readonly hasResult: boolean }[]> {
    await this.pendingWrites.waitUntilDone();
    return [...this.openCommands.values()].map(({ stored, isSendable }) => ({ stored, hasResult: isSendable }));
  }

  /**
   * Called after the welcome of the server. Sends all results again, although Hello contained them, because servers
   * before 0.3.0 do not acknowledge results in Hello.
   */
  attach(stream: Stream, { serverTime }: Welcome): void {
    this.stream = stream;
    this.serverClock = new ServerClock();
    if (serverTime) this.serverClock.observe(serverTime.getTime(), this.options.clock.earliest());
    this.results.attach(stream);
  }

  /** Called when the stream accepts messages again. */
  onWritable(): void {
    this.results.onWritable();
  }

  /** Called when the stream has ended. */
  detach(): void {
    this.stream = undefined;
    this.results.detach();
  }

  /**
   * Handles a command from the server. A command that is open or in the store is never executed again: its state or
   * result is sent instead. If the store cannot be read, the result is `no_answer`, because the command may have been
   * executed before.
   */
  receive(message: Command): void {
    const { executionId } = message;
    const openCommand = this.openCommands.get(executionId);
    if (openCommand) {
      this.handleRepeated(message, () => this.sendState(openCommand));
      return;
    }
    let pastCommand: StoredCommand | undefined;
    try {
      pastCommand = this.options.store.findCommand(executionId);
    } catch (error) {
      this.reject(
        message,
        createStoreFailureOutcome('no_answer', error, 'the store could not be searched for an earlier execution'),
      );
      return;
    }
    if (pastCommand) this.handleRepeated(message, () => this.sendPastResult(pastCommand));
    else this.accept(message);
  }

  /**
   * Handles the end of an execution on the server: a command whose delivery has not started is dropped, and a running
   * delivery is aborted. If the command has already ended, the server has its result or will receive it.
   */
  cancelCommand(executionId: string): void {
    const command = this.openCommands.get(executionId);
    if (!command || command.stored.stage === 'ended') return;
    this.options.report({ event: 'command_cancelled', executionId });
    this.dispatcher.cancelCommand(command);
  }

  /**
   * Handles the acknowledgement of a result. An unknown outcome, or the acknowledgement of a result that was not sent,
   * is ignored.
   */
  acknowledge({ executionId, outcome: resultOutcome, reason }: CommandResultAck): void {
    const outcome = findOutcomeName(resultOutcome);
    const command = this.openCommands.get(executionId);
    if (outcome === undefined || command?.isSendable === false) return;
    this.options.report({ event: 'command_acknowledged', executionId, outcome, ...(reason && { reason }) });
    this.openCommands.delete(executionId);
    if (command?.isStored) this.options.writer.writeLater({ kind: 'command_acknowledged', executionId });
  }

  /** Starts no more deliveries. */
  stop(): void {
    this.dispatcher.stop(this.openCommands.values());
  }

  /**
   * Aborts running deliveries. Deliveries that return a result immediately keep it; all other running ones get
   * `no_answer`.
   */
  async abortDeliveries(): Promise<void> {
    await this.dispatcher.abortDeliveries();
    await this.pendingWrites.waitUntilDone();
  }

  /** Clears all timers. */
  close(): void {
    for (const { timer } of this.openCommands.values()) clearTimeout(timer);
  }

  /** Returns whether a delivery or a write is running, or the server has not acknowledged a result that can be sent. */
  isBusy(): boolean {
    return (
      this.dispatcher.runningCount > 0 ||
      this.pendingWrites.runningCount > 0 ||
      (this.stream !== undefined && [...this.openCommands.values()].some(({ isSendable }) => isSendable))
    );
  }

  /** Adds a stored command to the open commands. `clientDeviceId`: empty if it is not needed any more. */
  private addStored(stored: StoredCommand, clientDeviceId = ''): OpenCommand {
    const command = restoreOpenCommand(stored, clientDeviceId);
    this.openCommands.set(stored.executionId, command);
    return command;
  }

  /**
   * Queues a waiting command of an earlier start. It is settled as expired if the machine has restarted since, and as
   * unreachable if the store is corrupt.
   */
  private resumeWaiting(stored: StoredCommand): void {
    let message: Command;
    try {
      message = decodeStoredMessage(stored);
    } catch (error) {
      this.results.settle(
        this.addStored(stored),
        createStoreFailureOutcome('unreachable', error, 'the command was waiting when the gateway stopped'),
      );
      return;
    }
    const command = this.addStored(stored, message.clientDeviceId);
    if (isFromOtherStart(stored, message, this.options.clock))
      this.results.settle(command, createExpiredOutcome('the machine restarted, so its deadline cannot be checked'));
    else this.dispatcher.resume(command);
  }

  /** Reports a repeated command, and sends what is known about it. */
  private handleRepeated(message: Command, sendKnown: () => void): void {
    this.options.report({ event: 'command_repeated', ...toCommandSummary(message) });
    sendKnown();
  }

  /** Accepts a new command and queues it; refuses it if there are too many open commands. */
  private accept(message: Command): void {
    if (this.openCommands.size >= MAX_OPEN_COMMANDS) {
      this.reject(
        message,
        createOutcome(
          'refused',
          'gateway_full',
          `the gateway already has ${MAX_OPEN_COMMANDS} open commands, which is the maximum`,
        ),
      );
      return;
    }
    const { clock, report } = this.options;
    const stored: StoredCommand = {
      ...createReceivedCommand(message.executionId),
      message: encodeCommand(message),
      expiresAtUptimeMs: computeExpiry(message, clock, this.serverClock),
      machineStart: clock.machineStart,
    };
    const command = createOpenCommand(stored, message.clientDeviceId);
    this.openCommands.set(stored.executionId, command);
    report({ event: 'command_taken', ...toCommandSummary(message) });
    this.dispatcher.enqueue(command);
  }

  /** Called when a command is stored: the server may be informed now. */
  private handleStored(command: OpenCommand): void {
    command.isStored = true;
    this.sendState(command);
  }

  /**
   * Rejects a command without storing it, so it is not executed. The result is sent until it is acknowledged; with
   * MAX_OPEN_COMMANDS open commands it is sent only once. `command_taken` is reported for every new command, also for a
   * rejected one.
   */
  private reject(message: Command, outcome: Outcome): void {
    const { executionId, clientDeviceId } = message;
    const command = createOpenCommand(createReceivedCommand(executionId), clientDeviceId);
    if (this.openCommands.size < MAX_OPEN_COMMANDS) this.openCommands.set(executionId, command);
    this.options.report({ event: 'command_taken', ...toCommandSummary(message) });
    this.results.settleUnstored(command, outcome);
  }

  /** Sends the state of an open command. Nothing is sent while the command is being stored. */
  private sendState(command: OpenCommand): void {
    if (command.isSendable) {
      this.results.send(command);
      return;
    }
    const { executionId, time } = command.stored;
    if (command.isStored && this.options.sendReceipts)
      this.stream?.send({ $case: 'commandReceived', value: { executionId, time: new Date(time) } });
  }

  /** Sends the result of a command that the server has already acknowledged. Result 0 means that there is none. */
  private sendPastResult(stored: StoredCommand): void {
    if (stored.result !== 0) this.stream?.send({ $case: 'commandResult', value: buildResultMessage(stored) });
  }
}
