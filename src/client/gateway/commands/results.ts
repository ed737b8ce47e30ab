import { type AttachRequest, CommandResultCode } from '../../gen/gateway/v1/gateway_service';
import type { GatewayEvent } from '../events';
import type { StoreChange } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import type { ChangesUnderWay } from './changesUnderWay';
import { answerShown, resultMessage } from './commandMessages';
import { type OpenCommand, withoutMessage } from './openCommand';
import type { Outcome } from './outcome';

/** Where something is said to the server. */
export interface Stream {
  send(message: NonNullable<AttachRequest['message']>): void;
  /** False: enough waits for the network. */
  readonly hasRoom: boolean;
}

/** What telling results needs. */
export interface ResultsOptions {
  readonly writer: StoreWriter;
  readonly changes: ChangesUnderWay;
  /** Every command whose result the server has not acknowledged. */
  readonly open: ReadonlyMap<string, OpenCommand>;
  readonly report: (event: GatewayEvent) => void;
}

const TICK_MS = 10_000;
// What was not acknowledged for so many ticks is told again.
const PATIENCE_TICKS = 3;

/**
 * Keeps results and tells them. A result leaves when it is kept. Where the store fails, that of a command that was begun leaves all the same, for after
 * a restart it would be `no_answer` and never done again; one that says that nothing was done waits, for after a restart it could be done.
 */
export class Results {
  private stream: Stream | undefined;
  private tick = 0;
  private timer: NodeJS.Timeout | undefined;
  /** There may be some to tell as soon as there is room. */
  private hasDue = false;

  constructor(private readonly options: ResultsOptions) {}

  /** The server welcomed the gateway: each result is told, and after half a minute again. */
  attach(stream: Stream): void {
    this.stream = stream;
    for (const command of this.options.open.values()) command.toldAt = undefined;
    this.timer = setInterval(() => {
      this.tick += 1;
      this.tellDue();
    }, TICK_MS);
    this.tellDue();
  }

  /** The stream ended. */
  detach(): void {
    this.stream = undefined;
    clearInterval(this.timer);
  }

  /** There is room on the stream. */
  roomMade(): void {
    if (this.hasDue) this.tellDue();
  }

  /** The command came to its end. */
  settle(command: OpenCommand, { result, code, text, time }: Outcome): void {
    clearTimeout(command.timer);
    // After a restart it would be told as no_answer, or expire again.
    const isSafe = command.kept.stage === 'started' || result === CommandResultCode.COMMAND_RESULT_CODE_EXPIRED;
    command.kept = { ...withoutMessage(command.kept), stage: 'ended', result, code, text, time };
    void this.options.changes.begin(async () => await this.keep(command, isSafe));
  }

  /** A command that is not kept came to its end. It is told until it is acknowledged. */
  tellUnkept(command: OpenCommand, { result, code, text, time }: Outcome): void {
    command.kept = { ...withoutMessage(command.kept), stage: 'ended', result, code, text, time };
    this.release(command);
  }

  /** Tells the result of a command that has one, if it may leave. */
  tell(command: OpenCommand): void {
    if (!command.isTellable || !this.stream) return;
    command.toldAt = this.tick;
    this.stream.send({ $case: 'commandResult', value: resultMessage(command.kept) });
  }

  private tellDue(): void {
    for (const command of this.options.open.values()) {
      if (command.toldAt !== undefined && this.tick - command.toldAt < PATIENCE_TICKS) continue;
      this.hasDue = this.stream?.hasRoom !== true;
      if (this.hasDue) return;
      this.tell(command);
    }
    this.hasDue = false;
  }

  private async keep(command: OpenCommand, mayLeaveAnyway: boolean): Promise<void> {
    const change: StoreChange = { kind: 'command', command: command.kept };
    try {
      await this.options.writer.write(change);
    } catch {
      // The writer says that the store fails, and tries until it is in.
      if (!mayLeaveAnyway) return this.options.writer.writeLater(change, () => this.release(command));
      this.options.writer.writeLater(change);
    }
    command.isKept = true; // or will be: one that expired as it came was not kept before
    this.release(command);
  }

  private release(command: OpenCommand): void {
    command.isTellable = true;
    this.options.report({ event: 'command_answered', ...answerShown(command.kept) });
    this.tell(command);
  }
}
