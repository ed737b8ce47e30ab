import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { CommandResultCode } from '../../../gen/gateway/v1/gateway_service';

/** How far a command came on the gateway. */
export interface HeldCommand {
  readonly executionId: string;
  /** Undefined: received, not yet done. */
  readonly result: CommandResultCode | undefined;
  readonly code: string;
  readonly message: string;
  /** Unix milliseconds. */
  readonly time: number;
  /** The server has taken the result; the id is kept so that a repeated command is not done again. */
  readonly acknowledged: boolean;
}

// So many acknowledged ids are remembered against repetition.
const REMEMBERED = 10_000;

/** What gateway software must not forget: commands until their result is acknowledged. With a file it survives the process. */
export class GatewayMemory {
  private readonly commands = new Map<string, HeldCommand>();

  /** `file`: read if it is there, written with every change; undefined: memory alone. */
  constructor(private readonly file?: string) {
    if (file === undefined || !existsSync(file)) return;
    for (const held of JSON.parse(readFileSync(file, 'utf8')) as HeldCommand[]) this.commands.set(held.executionId, held);
  }

  /** Undefined for a command that was never received. */
  find(executionId: string): HeldCommand | undefined {
    return this.commands.get(executionId);
  }

  /** What the server has to be told in Hello: all that is not acknowledged. */
  open(): HeldCommand[] {
    return [...this.commands.values()].filter((held) => !held.acknowledged);
  }

  /** A command arrived. On disk when it returns, if there is a file. */
  receive(executionId: string, time: number): void {
    this.keep({ executionId, result: undefined, code: '', message: '', time, acknowledged: false });
  }

  /** A command came to its end. */
  settle(executionId: string, result: CommandResultCode, code: string, message: string, time: number): HeldCommand {
    return this.keep({ executionId, result, code, message, time, acknowledged: false });
  }

  /** The server has taken the result. */
  acknowledge(executionId: string): void {
    const held = this.commands.get(executionId);
    if (held) this.keep({ ...held, acknowledged: true });
  }

  /** What was under way when the process ended: nobody knows whether it reached its device. */
  giveUpUnderWay(time: number): void {
    for (const held of this.open()) {
      if (held.result === undefined) this.settle(held.executionId, CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER, 'gateway_restarted', 'the gateway restarted while the command was under way', time);
    }
  }

  private keep(held: HeldCommand): HeldCommand {
    this.commands.delete(held.executionId);
    this.commands.set(held.executionId, held);
    this.forgetOldest();
    if (this.file !== undefined) {
      writeFileSync(`${this.file}.new`, JSON.stringify([...this.commands.values()]), { mode: 0o600, flush: true });
      renameSync(`${this.file}.new`, this.file);
    }
    return held;
  }

  private forgetOldest(): void {
    if (this.commands.size <= REMEMBERED) return;
    for (const [id, held] of this.commands) {
      if (held.acknowledged) {
        this.commands.delete(id);
        return;
      }
    }
  }
}
