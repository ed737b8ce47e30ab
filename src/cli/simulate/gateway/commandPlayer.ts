import { CommandResultCode, type Command } from '../../../gen/gateway/v1/gateway_service';
import type { HeldCommand } from './gatewayMemory';
import type { SimulatorEvent, SimulatorOptions } from './simulatorOptions';

/** What the player has the gateway do. */
export interface PlayerHooks {
  /** A command is stored. */
  readonly received: (held: HeldCommand) => void;
  /** A command came to its end. */
  readonly answered: (held: HeldCommand) => void;
  /** A device has something new to say. */
  readonly changed: (clientDeviceId: string) => void;
  readonly report: (event: SimulatorEvent['event'], fields: SimulatorEvent['fields']) => void;
}

/** Plays commands on the devices: each once, after a delay, never after its deadline. It outlives the streams. */
export class CommandPlayer {
  private readonly underWay = new Map<string, NodeJS.Timeout>();

  constructor(
    private readonly options: SimulatorOptions,
    private readonly hooks: PlayerHooks,
  ) {}

  /** A command came from the server. One that is known already is told again, never done again. */
  take(command: Command): void {
    const { executionId, attempt, clientDeviceId, payload, fPort } = command;
    const { memory, answerDelayMs } = this.options;
    const known = memory.find(executionId);
    const shown = payload?.$case === 'bytes' ? payload.value.toString('hex') : payload?.value;
    this.hooks.report(known ? 'command.repeated' : 'command.taken', { execution_id: executionId, attempt, device: clientDeviceId, payload: shown, ...(fPort !== undefined && { f_port: fPort }) });
    if (known) return known.result === undefined ? this.hooks.received(known) : this.hooks.answered(known);
    const received = performance.now();
    memory.receive(executionId, Date.now());
    this.hooks.received(memory.find(executionId) as HeldCommand);
    const { seconds, nanos } = command.expiresIn ?? { seconds: Number.POSITIVE_INFINITY, nanos: 0 };
    const expiresAt = received + seconds * 1000 + nanos / 1e6;
    this.underWay.set(executionId, setTimeout(() => this.play(command, expiresAt), answerDelayMs));
  }

  /** The execution ended on the server: what was not done is dropped, and either way its end is told. */
  withdraw(executionId: string): void {
    this.hooks.report('command.withdrawn', { execution_id: executionId });
    const timer = this.underWay.get(executionId);
    const known = this.options.memory.find(executionId);
    if (timer !== undefined) {
      clearTimeout(timer);
      this.settle(executionId, CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE, 'withdrawn', 'withdrawn before it was done');
    } else if (known?.result !== undefined) this.hooks.answered(known);
  }

  /** Drops what is under way; its results stay unknown. */
  stop(): void {
    for (const timer of this.underWay.values()) clearTimeout(timer);
    this.underWay.clear();
  }

  private play({ executionId, clientDeviceId, payload }: Command, expiresAt: number): void {
    const { answer, devices } = this.options;
    const device = devices.find((candidate) => candidate.clientDeviceId === clientDeviceId);
    if (performance.now() > expiresAt) return this.settle(executionId, CommandResultCode.COMMAND_RESULT_CODE_EXPIRED, 'expired', 'its deadline passed before it could be done');
    if (!device) return this.settle(executionId, CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE, 'unknown_device', `this gateway has no device ${clientDeviceId}`);
    if (answer === 'reject') return this.settle(executionId, CommandResultCode.COMMAND_RESULT_CODE_REJECTED, 'rejected_on_request', 'the simulator was told to reject commands');
    if (answer === 'no_answer') return this.settle(executionId, CommandResultCode.COMMAND_RESULT_CODE_NO_ANSWER, 'silent_on_request', 'the simulator was told not to let devices answer');
    const answered = device.act(payload?.value);
    if (!answered.ok) return this.settle(executionId, CommandResultCode.COMMAND_RESULT_CODE_REJECTED, answered.code, answered.message);
    this.settle(executionId, CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, '', answered.message);
    this.hooks.changed(clientDeviceId);
  }

  private settle(executionId: string, result: CommandResultCode, code: string, message: string): void {
    this.underWay.delete(executionId);
    const held = this.options.memory.settle(executionId, result, code, message, Date.now());
    this.hooks.report('command.answered', { execution_id: executionId, result: CommandResultCode[result].replace('COMMAND_RESULT_CODE_', '').toLowerCase(), ...(code && { code }), message });
    this.hooks.answered(held);
  }
}
