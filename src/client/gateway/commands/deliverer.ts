import { Command } from '../../gen/gateway/v1/gateway_service';
import type { GatewayEvent } from '../events';
import { GatewayError } from '../gatewayError';
import type { MachineClock } from '../machineClock';
import type { GatewayOptions } from '../options';
import type { GatewayStore } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import { deliveredCommand } from './commandMessages';
import { isExpired } from './deadline';
import { RunningDelivery } from './delivery';
import { Lanes } from './lanes';
import { isWaiting, withoutMessage, type OpenCommand } from './openCommand';
import { expired, nameOf, outcome, type Outcome } from './outcome';

/** What delivering needs. */
export interface DelivererOptions {
  readonly store: GatewayStore;
  readonly writer: StoreWriter;
  readonly clock: MachineClock;
  readonly deliver: GatewayOptions['deliver'];
  readonly deliveriesAtOnce: number;
  readonly deliveryTimeoutMs: number;
  readonly report: (event: GatewayEvent) => void;
  readonly settle: (command: OpenCommand, outcome: Outcome) => void;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Delivers commands: each once, those of a device in the order in which they came, none after its deadline. */
export class Deliverer {
  private readonly lanes: Lanes<OpenCommand>;
  private readonly running = new Map<OpenCommand, RunningDelivery>();
  private isStopped = false;

  constructor(private readonly options: DelivererOptions) {
    this.lanes = new Lanes(options.deliveriesAtOnce, async (command) => await this.takeTurn(command));
  }

  /** How many are being delivered. */
  get count(): number {
    return this.running.size;
  }

  /** A command waits for its turn, until its deadline. */
  queue(command: OpenCommand): void {
    if (isExpired(command.kept, this.options.clock)) return this.options.settle(command, expired('its deadline passed before it could be begun'));
    this.watch(command);
    this.lanes.add(command.clientDeviceId, command);
  }

  /** The server does not want it any more. */
  withdraw(command: OpenCommand): void {
    command.isWithdrawn = true;
    if (command.isKept && isWaiting(command)) this.options.settle(command, withdrawn());
    this.running.get(command)?.abort('the execution ended on the server');
  }

  /** Begins nothing any more. */
  stop(): void {
    this.isStopped = true;
    this.lanes.close();
  }

  /** Ends what is under way: what it knows at once counts, the rest is `no_answer`. */
  async giveUp(): Promise<void> {
    for (const delivery of this.running.values()) delivery.abort('the gateway stops');
    await new Promise((resolve) => setImmediate(resolve));
    const rest = [...this.running.values()];
    for (const delivery of rest) delivery.giveUp(outcome('no_answer', 'gateway_stopped', 'the gateway stopped before the device answered'));
    await Promise.all(rest.map(async (delivery) => await delivery.outcome));
  }

  private async takeTurn(command: OpenCommand): Promise<void> {
    if (!isWaiting(command)) return;
    clearTimeout(command.timer);
    const early = this.findHindrance(command);
    if (early) return this.options.settle(command, early);
    command.isStarting = true;
    const found = await this.start(command);
    command.isStarting = false;
    if (!('executionId' in found)) return this.options.settle(command, found);
    const late = this.findHindrance(command); // the disk may have been slow
    if (late) this.options.settle(command, late);
    else await this.deliver(command, found);
  }

  /** Keeps that the delivery begins. */
  private async start(command: OpenCommand): Promise<Command | Outcome> {
    try {
      const kept = this.options.store.findCommand(command.kept.executionId);
      if (!kept) throw new GatewayError('store_failed', 'the command is not in the store any more');
      await this.options.writer.write({ kind: 'command', command: { ...kept, stage: 'started', time: Date.now() } });
      command.kept = withoutMessage({ ...kept, stage: 'started', time: Date.now() });
      return Command.decode(kept.message);
    } catch (error) {
      return unkept('unreachable', error, 'that its delivery begins could not be kept');
    }
  }

  private findHindrance(command: OpenCommand): Outcome | undefined {
    if (command.isWithdrawn) return withdrawn();
    if (isExpired(command.kept, this.options.clock)) return expired('its deadline passed before it could be begun');
    return this.isStopped ? outcome('unreachable', 'gateway_stopped', 'the gateway stopped before the delivery began') : undefined;
  }

  private async deliver(command: OpenCommand, message: Command): Promise<void> {
    const { deliver, deliveryTimeoutMs: timeoutMs, report } = this.options;
    const { executionId } = message;
    const onLate = ({ result, code, text }: Outcome): void => report({ event: 'delivery_too_late', executionId, result: nameOf(result), code, message: text });
    const delivery = new RunningDelivery({ deliver, command: deliveredCommand(message), timeoutMs, onLate });
    this.running.set(command, delivery);
    const found = await delivery.outcome;
    this.running.delete(command);
    this.options.settle(command, found);
  }

  /** Ends the wait at the deadline. A timer does not count the sleep of the machine, so the clock is asked again. */
  private watch(command: OpenCommand): void {
    const { clock, settle } = this.options;
    const remaining = command.kept.expiresAtUptimeMs - clock.latest();
    command.timer = setTimeout(() => {
      if (!isWaiting(command)) return;
      if (isExpired(command.kept, clock)) settle(command, expired('its deadline passed before it could be begun'));
      else this.watch(command);
    }, Math.max(1, Math.min(remaining, LONGEST_TIMER_MS)));
  }
}

/** What could not be kept was not done. */
export function unkept(result: 'refused' | 'unreachable', error: unknown, what: string): Outcome {
  const reason = error instanceof GatewayError ? error.reason : 'store_failed';
  return outcome(result, `gateway_${reason}`, `${what}: ${error instanceof Error ? error.message : String(error)}`.slice(0, 2000));
}

function withdrawn(): Outcome {
  return outcome('unreachable', 'withdrawn', 'withdrawn before it was begun');
}
