import { type AttachRequest, CommandResultCode } from '../../gen/gateway/v1/gateway_service';
import type { GatewayEvent } from '../events';
import type { StoreChange } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import type { PendingWrites } from './pendingWrites';
import { toResultSummary, buildResultMessage } from './commandMessages';
import { type OpenCommand, withoutMessage } from './openCommand';
import type { Outcome } from './outcome';

/** The sending side of the stream to the server. */
export interface Stream {
  send(message: NonNullable<AttachRequest['message']>): void;
  /** False: enough messages are waiting for the network. */
  readonly isWritable: boolean;
}

/** Dependencies of Results. */
export interface ResultsOptions {
  readonly writer: StoreWriter;
  readonly pendingWrites: PendingWrites;
  /** Every command whose result the server has not acknowledged. */
  readonly openCommands: ReadonlyMap<string, OpenCommand>;
  readonly report: (event: GatewayEvent) => void;
}

const TICK_MS = 10_000;
// A result without an acknowledgement is sent again after this number of ticks.
const RESEND_AFTER_TICKS = 3;

/**
 * Stores results and sends them. A result is sent after it is stored. If the store fails, the result of a started
 * command is sent anyway, because after a restart it would be `no_answer` and never executed again. A result that says
 * that nothing was executed waits for the store (except `expired`), because after a restart the command could still be
 * executed. A command is settled when its result is set. A tick is a step of 10 s, by which the age of sent results is
 * counted.
 */
export class Results {
  private stream: Stream | undefined;
  private tick = 0;
  private timer: NodeJS.Timeout | undefined;
  /** Whether results wait until the stream accepts messages again. */
  private hasWaitingResults = false;

  constructor(private readonly options: ResultsOptions) {}

  /** Called after the welcome of the server: sends each result, and again after 30 s without an acknowledgement. */
  attach(stream: Stream): void {
    this.stream = stream;
    for (const command of this.options.openCommands.values()) command.sentAtTick = undefined;
    this.timer = setInterval(() => {
      this.tick += 1;
      this.sendDueResults();
    }, TICK_MS);
    this.sendDueResults();
  }

  /** Called when the stream has ended. */
  detach(): void {
    this.stream = undefined;
    clearInterval(this.timer);
  }

  /** Called when the stream accepts messages again. */
  onWritable(): void {
    if (this.hasWaitingResults) this.sendDueResults();
  }

  /**
   * Sets the result of a command, stores it, and sends it when it is stored. The result of a started or expired command
   * is sent even if the store fails.
   */
  settle(command: OpenCommand, { result, code, text, time }: Outcome): void {
    clearTimeout(command.timer);
    // A started command is never executed again, and an expired one expires again: so their results stay true after a
    // restart, even if they are not stored.
    const canSendUnstored =
      command.stored.stage === 'started' || result === CommandResultCode.COMMAND_RESULT_CODE_EXPIRED;
    command.stored = { ...withoutMessage(command.stored), stage: 'ended', result, code, text, time };
    void this.options.pendingWrites.run(async () => await this.storeResult(command, canSendUnstored));
  }

  /** Sets the result of a command that is not stored. It is sent until it is acknowledged. */
  settleUnstored(command: OpenCommand, { result, code, text, time }: Outcome): void {
    command.stored = { ...withoutMessage(command.stored), stage: 'ended', result, code, text, time };
    this.reportAndSend(command);
  }

  /** Sends the result of a command if it has one that may be sent. */
  send(command: OpenCommand): void {
    if (!command.isSendable || !this.stream) return;
    command.sentAtTick = this.tick;
    this.stream.send({ $case: 'commandResult', value: buildResultMessage(command.stored) });
  }

  /**
   * Sends all results that were not sent on this stream, or not acknowledged for 30 s, until the stream accepts no
   * more.
   */
  private sendDueResults(): void {
    for (const command of this.options.openCommands.values()) {
      if (command.sentAtTick !== undefined && this.tick - command.sentAtTick < RESEND_AFTER_TICKS) continue;
      this.hasWaitingResults = this.stream?.isWritable !== true;
      if (this.hasWaitingResults) return;
      this.send(command);
    }
    this.hasWaitingResults = false;
  }

  /**
   * Stores the result. If the write fails, it is retried until it succeeds, and `canSendUnstored` decides whether the
   * result waits for that.
   */
  private async storeResult(command: OpenCommand, canSendUnstored: boolean): Promise<void> {
    const change: StoreChange = { kind: 'command', command: command.stored };
    try {
      await this.options.writer.write(change);
    } catch {
      // The writer reports that the store fails, and retries until the change is stored.
      if (!canSendUnstored) {
        this.options.writer.writeLater(change, () => this.reportAndSend(command));
        return;
      }
      this.options.writer.writeLater(change);
    }
    command.isStored = true; // It is or will be stored. A command that expired on arrival was not stored before.
    this.reportAndSend(command);
  }

  /** Reports the result, and sends it now and after each reconnect until it is acknowledged. */
  private reportAndSend(command: OpenCommand): void {
    command.isSendable = true;
    this.options.report({ event: 'command_answered', ...toResultSummary(command.stored) });
    this.send(command);
  }
}
