import type { Command } from '../../gen/gateway/v1/gateway_service';
import type { GatewayEvent } from '../events';
import { GatewayError } from '../gatewayError';
import type { MachineClock } from '../machineClock';
import type { GatewayOptions } from '../options';
import type { GatewayStore, KeptCommand } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import type { ChangesUnderWay } from './changesUnderWay';
import { deliveredCommand, keptMessage } from './commandMessages';
import { isExpired } from './deadline';
import { RunningDelivery } from './delivery';
import { Lanes } from './lanes';
import { isWaiting, withoutMessage, type OpenCommand } from './openCommand';
import { expired, nameOf, outcome, type Outcome } from './outcome';
import type { Results } from './results';

/** What delivering needs. */
export interface DelivererOptions {
  readonly store: GatewayStore;
  readonly writer: StoreWriter;
  readonly clock: MachineClock;
  readonly deliver: GatewayOptions['deliver'];
  readonly deliveriesAtOnce: number;
  readonly deliveryTimeoutMs: number;
  readonly report: (event: GatewayEvent) => void;
  readonly changes: ChangesUnderWay;
  readonly results: Results;
  /** A command is kept that was not. */
  readonly onKept: (command: OpenCommand) => void;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;
const TOO_LATE = 'its deadline passed before it could be begun';

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

  /** A command that came. Where its turn comes at once it is kept with that, else first, and then waits. */
  take(command: OpenCommand): void {
    this.lanes.add(command.clientDeviceId, command);
    if (isWaiting(command)) command.keeping = this.options.changes.begin(async () => await this.keep(command));
  }

  /** A command that was kept before a restart waits for its turn. */
  resume(command: OpenCommand): void {
    this.watch(command);
    this.lanes.add(command.clientDeviceId, command);
  }

  /** The server does not want it any more. What is being kept is looked at again when it is. */
  withdraw(command: OpenCommand): void {
    command.isWithdrawn = true;
    if (command.isKept && isWaiting(command)) this.options.results.settle(command, withdrawn());
    this.running.get(command)?.abort('the execution ended on the server');
  }

  /** Begins nothing any more. Of what waits that which a store in memory holds is answered: nothing would be left to say later that it was not done. */
  stop(open: Iterable<OpenCommand>): void {
    this.isStopped = true;
    this.lanes.close();
    for (const command of open) if (command.isKept) this.dropVolatile(command);
  }

  /** Ends what is under way: what it knows at once counts, the rest is `no_answer`. */
  async giveUp(): Promise<void> {
    for (const delivery of this.running.values()) delivery.abort('the gateway stops');
    await new Promise((resolve) => setImmediate(resolve));
    const rest = [...this.running.values()];
    for (const delivery of rest) delivery.giveUp(outcome('no_answer', 'gateway_stopped', 'the gateway stopped before the device answered'));
    await Promise.all(rest.map(async (delivery) => await delivery.outcome));
  }

  private async keep(command: OpenCommand): Promise<void> {
    const { writer, results, onKept } = this.options;
    try {
      await writer.write({ kind: 'command', command: command.kept });
    } catch (error) {
      return results.tellUnkept(command, unkept('refused', error, 'the command could not be kept'));
    }
    command.kept = withoutMessage(command.kept);
    onKept(command);
    if (command.isWithdrawn) this.withdraw(command);
    else if (this.isStopped) this.dropVolatile(command);
    this.watch(command);
  }

  /** Ends the wait at the deadline. A timer does not count the sleep of the machine, so the clock is asked again. */
  private watch(command: OpenCommand): void {
    if (this.isStopped || !isWaiting(command) || this.isOverdue(command)) return;
    const remaining = command.kept.expiresAtUptimeMs - this.options.clock.latest();
    command.timer = setTimeout(() => this.watch(command), Math.max(1, Math.min(remaining, LONGEST_TIMER_MS)));
  }

  /** Whether its deadline passed; then it is answered with that. */
  private isOverdue(command: OpenCommand): boolean {
    const isOverdue = isExpired(command.kept, this.options.clock);
    if (isOverdue) this.options.results.settle(command, expired(TOO_LATE));
    return isOverdue;
  }

  private dropVolatile(command: OpenCommand): void {
    if (!this.options.store.isDurable && isWaiting(command)) this.options.results.settle(command, gatewayStopped());
  }

  private async takeTurn(command: OpenCommand): Promise<void> {
    if (command.keeping) await command.keeping;
    if (this.isStopped || !isWaiting(command) || this.isOverdue(command)) return;
    clearTimeout(command.timer);
    command.isStarting = true;
    const delivery = await this.options.changes.begin(async () => await this.begin(command));
    if (!delivery) return;
    const found = await delivery.outcome;
    this.running.delete(command);
    this.options.results.settle(command, found);
  }

  /** Begins the delivery, once that is kept; undefined: it may not begin, and was answered. */
  private async begin(command: OpenCommand): Promise<RunningDelivery | undefined> {
    const message = await this.start(command);
    const hindrance = message && this.findHindrance(command); // the disk may have been slow
    if (message && !hindrance) return this.deliver(command, message);
    if (hindrance) this.options.results.settle(command, hindrance);
    return undefined;
  }

  /** Keeps that the delivery begins, and with that the command where it is not kept yet; undefined: it could not be kept, and was answered. */
  private async start(command: OpenCommand): Promise<Command | undefined> {
    const { store, writer, onKept } = this.options;
    const { isKept } = command;
    try {
      const kept = isKept ? store.findCommand(command.kept.executionId) : command.kept;
      if (!kept) throw new GatewayError('store_failed', 'the command is not in the store any more');
      const message = keptMessage(kept);
      const started: KeptCommand = { ...kept, stage: 'started', time: Date.now() };
      await writer.write({ kind: 'command', command: started });
      command.kept = withoutMessage(started);
      if (!isKept) onKept(command);
      return message;
    } catch (error) {
      this.answerUnstarted(command, error);
      return undefined;
    }
  }

  private answerUnstarted(command: OpenCommand, error: unknown): void {
    const { results } = this.options;
    if (command.isKept) results.settle(command, unkept('unreachable', error, 'that its delivery begins could not be kept'));
    else results.tellUnkept(command, unkept('refused', error, 'the command could not be kept'));
  }

  /** Why it must not be delivered though its turn came: nothing reached the device yet. */
  private findHindrance(command: OpenCommand): Outcome | undefined {
    if (command.isWithdrawn) return withdrawn();
    if (isExpired(command.kept, this.options.clock)) return expired(TOO_LATE);
    return this.isStopped ? gatewayStopped() : undefined;
  }

  private deliver(command: OpenCommand, message: Command): RunningDelivery {
    const { deliver, deliveryTimeoutMs: timeoutMs, report } = this.options;
    const { executionId } = message;
    const onLate = ({ result, code, text }: Outcome): void => report({ event: 'delivery_too_late', executionId, result: nameOf(result), code, message: text });
    const delivery = new RunningDelivery({ deliver, command: deliveredCommand(message), timeoutMs, onLate });
    this.running.set(command, delivery);
    return delivery;
  }
}

/** What became of a command that the store failed for: what could not be kept was not done. */
export function unkept(result: 'refused' | 'unreachable' | 'no_answer', error: unknown, what: string): Outcome {
  const reason = error instanceof GatewayError ? error.reason : 'store_failed';
  return outcome(result, `gateway_${reason}`, `${what}: ${error instanceof Error ? error.message : String(error)}`.slice(0, 2000));
}

function gatewayStopped(): Outcome {
  return outcome('unreachable', 'gateway_stopped', 'the gateway stopped before the delivery began');
}

function withdrawn(): Outcome {
  return outcome('unreachable', 'withdrawn', 'withdrawn before it was begun');
}
