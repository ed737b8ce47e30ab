import type { Command } from '../../gen/gateway/v1/gateway_service';
import { MAX_TIMER_MS } from '../../delay';
import type { GatewayEvent } from '../events';
import { GatewayError } from '../gatewayError';
import type { MachineClock } from '../machineClock';
import type { GatewayOptions } from '../options';
import type { GatewayStore, StoredCommand } from '../store/gatewayStore';
import type { StoreWriter } from '../store/storeWriter';
import type { PendingWrites } from './pendingWrites';
import { toDeliveredCommand, decodeStoredMessage } from './commandMessages';
import { isExpired } from './deadline';
import { RunningDelivery } from './runningDelivery';
import { KeyedQueue } from './keyedQueue';
import { isWaiting, withoutMessage, type OpenCommand } from './openCommand';
import { createExpiredOutcome, getResultName, createOutcome, type Outcome } from './outcome';
import type { Results } from './results';

/** Dependencies of CommandDispatcher. */
export interface CommandDispatcherOptions {
  readonly store: GatewayStore;
  readonly writer: StoreWriter;
  readonly clock: MachineClock;
  readonly deliver: GatewayOptions['deliver'];
  readonly maxConcurrentDeliveries: number;
  readonly deliveryTimeoutMs: number;
  readonly report: (event: GatewayEvent) => void;
  readonly pendingWrites: PendingWrites;
  readonly results: Results;
  /** Called when a command was stored for the first time. */
  readonly onStored: (command: OpenCommand) => void;
}

const DEADLINE_PASSED = 'its deadline passed before the delivery could start';

/**
 * Delivers commands: each at most once, those of one device in the order in which they arrived, none after its
 * deadline. A command is settled when its result is set.
 */
export class CommandDispatcher {
  private readonly queue: KeyedQueue<OpenCommand>;
  private readonly runningDeliveries = new Map<OpenCommand, RunningDelivery>();
  private isStopped = false;

  constructor(private readonly options: CommandDispatcherOptions) {
    this.queue = new KeyedQueue(options.maxConcurrentDeliveries, async (command) => await this.dispatch(command));
  }

  /** The number of running deliveries. */
  get runningCount(): number {
    return this.runningDeliveries.size;
  }

  /**
   * Queues a new command. If its delivery starts immediately, one write stores the command and the start of its
   * delivery; otherwise the command is stored first.
   */
  enqueue(command: OpenCommand): void {
    this.queue.add(command.clientDeviceId, command);
    if (isWaiting(command))
      command.storing = this.options.pendingWrites.run(async () => await this.storeCommand(command));
  }

  /** Queues a command that was stored before a restart, and settles it as expired if its deadline passes first. */
  resume(command: OpenCommand): void {
    this.scheduleExpiry(command);
    this.queue.add(command.clientDeviceId, command);
  }

  /**
   * Handles a cancelled command: one that waits gets its result now, and a running delivery is aborted. A command that
   * is being stored is checked again after that write.
   */
  cancelCommand(command: OpenCommand): void {
    command.isCancelled = true;
    if (command.isStored && isWaiting(command)) this.options.results.settle(command, createCancelledOutcome());
    this.runningDeliveries.get(command)?.abort('the execution ended on the server');
  }

  /**
   * Starts no more deliveries. With a store in memory, waiting commands get a result now, because after a restart
   * nothing could report that they were not executed. `openCommands`: every command without an acknowledged result.
   */
  stop(openCommands: Iterable<OpenCommand>): void {
    this.isStopped = true;
    this.queue.close();
    for (const command of openCommands) if (command.isStored) this.settleIfVolatile(command);
  }

  /**
   * Aborts the running deliveries. Deliveries that return a result immediately keep it; all other running ones get
   * `no_answer`.
   */
  async abortDeliveries(): Promise<void> {
    for (const delivery of this.runningDeliveries.values()) delivery.abort('the gateway stops');
    await new Promise((resolve) => setImmediate(resolve)); // deliveries that return immediately end now
    const unfinished = [...this.runningDeliveries.values()];
    for (const delivery of unfinished)
      delivery.abandon(
        createOutcome('no_answer', 'gateway_stopped', 'the gateway stopped before the device responded'),
      );
    await Promise.all(unfinished.map(async (delivery) => await delivery.outcome));
  }

  /**
   * Stores a waiting command. If the store fails, the command is refused, because a command that is not stored must not
   * be executed.
   */
  private async storeCommand(command: OpenCommand): Promise<void> {
    const { writer, results, onStored } = this.options;
    try {
      await writer.write({ kind: 'command', command: command.stored });
    } catch (error) {
      results.settleUnstored(command, createStoreFailureOutcome('refused', error, 'the command could not be stored'));
      return;
    }
    command.stored = withoutMessage(command.stored);
    onStored(command);
    if (command.isCancelled) this.cancelCommand(command);
    else if (this.isStopped) this.settleIfVolatile(command);
    this.scheduleExpiry(command);
  }

  /**
   * Schedules the expiry of a waiting command. Timers do not count the time that the machine sleeps, so the clock is
   * checked again.
   */
  private scheduleExpiry(command: OpenCommand): void {
    if (this.isStopped || !isWaiting(command) || this.expireIfOverdue(command)) return;
    const remaining = command.stored.expiresAtUptimeMs - this.options.clock.latest();
    command.timer = setTimeout(() => this.scheduleExpiry(command), Math.max(1, Math.min(remaining, MAX_TIMER_MS)));
  }

  /** Returns whether the deadline of the command has passed. If so, it settles the command as expired. */
  private expireIfOverdue(command: OpenCommand): boolean {
    const isOverdue = isExpired(command.stored, this.options.clock);
    if (isOverdue) this.options.results.settle(command, createExpiredOutcome(DEADLINE_PASSED));
    return isOverdue;
  }

  /** With a store in memory, settles a waiting command as not executed. */
  private settleIfVolatile(command: OpenCommand): void {
    if (!this.options.store.isDurable && isWaiting(command))
      this.options.results.settle(command, createStoppedOutcome());
  }

  /**
   * Delivers a command and settles it with the outcome. The queue calls this for the first command of a device when no
   * other one of the device is being delivered. Does nothing if the command was settled while it waited.
   */
  private async dispatch(command: OpenCommand): Promise<void> {
    if (command.storing) await command.storing;
    if (this.isStopped || !isWaiting(command) || this.expireIfOverdue(command)) return;
    clearTimeout(command.timer);
    command.isStarting = true;
    const delivery = await this.options.pendingWrites.run(async () => await this.startDelivery(command));
    if (!delivery) return; // it was not started, and `startDelivery` has settled the command
    const outcome = await delivery.outcome;
    this.runningDeliveries.delete(command);
    this.options.results.settle(command, outcome);
  }

  /**
   * Stores that the delivery starts, then starts it and adds it to the running deliveries. Because it is stored first,
   * a killed process never delivers a command twice. Returns undefined if the delivery may not start; the command is
   * settled then.
   */
  private async startDelivery(command: OpenCommand): Promise<RunningDelivery | undefined> {
    const message = await this.storeStart(command);
    if (!message) return undefined;
    const obstacle = this.findObstacle(command); // Checked after the write, which may have been slow.
    if (!obstacle) return this.runDelivery(command, message);
    this.options.results.settle(command, obstacle);
    return undefined;
  }

  /**
   * Stores that the delivery starts, together with the command if it is not stored yet. Returns undefined if the write
   * failed; the command is then settled.
   */
  private async storeStart(command: OpenCommand): Promise<Command | undefined> {
    const { store, writer, onStored } = this.options;
    const { isStored } = command;
    try {
      const stored = isStored ? store.findCommand(command.stored.executionId) : command.stored;
      if (!stored) throw new GatewayError('store_failed', 'the command is no longer in the store');
      const message = decodeStoredMessage(stored);
      const started: StoredCommand = { ...stored, stage: 'started', time: Date.now() };
      await writer.write({ kind: 'command', command: started });
      command.stored = withoutMessage(started);
      if (!isStored) onStored(command);
      return message;
    } catch (error) {
      this.settleUnstarted(command, error);
      return undefined;
    }
  }

  /** Settles a command whose start could not be stored, as not executed. */
  private settleUnstarted(command: OpenCommand, error: unknown): void {
    const { results } = this.options;
    if (command.isStored) {
      results.settle(
        command,
        createStoreFailureOutcome('unreachable', error, 'the start of the delivery could not be stored'),
      );
    } else {
      results.settleUnstored(command, createStoreFailureOutcome('refused', error, 'the command could not be stored'));
    }
  }

  /**
   * Returns the outcome of a command that must not be delivered any more; undefined if it may be. Nothing has reached
   * the device yet.
   */
  private findObstacle(command: OpenCommand): Outcome | undefined {
    if (command.isCancelled) return createCancelledOutcome();
    if (isExpired(command.stored, this.options.clock)) return createExpiredOutcome(DEADLINE_PASSED);
    return this.isStopped ? createStoppedOutcome() : undefined;
  }

  /** Calls the `deliver` option, as one of the running deliveries. A result after the timeout is only reported. */
  private runDelivery(command: OpenCommand, message: Command): RunningDelivery {
    const { deliver, deliveryTimeoutMs: timeoutMs, report } = this.options;
    const { executionId } = message;
    const onLate = ({ result, code, text }: Outcome): void =>
      report({ event: 'delivery_too_late', executionId, result: getResultName(result), code, message: text });
    const delivery = new RunningDelivery({ deliver, command: toDeliveredCommand(message), timeoutMs, onLate });
    this.runningDeliveries.set(command, delivery);
    return delivery;
  }
}

/**
 * Creates the outcome of a command that could not be processed because the store failed. `result`: `no_answer` if the
 * command may have been executed; otherwise it was not. `what`: what failed, as a clause.
 */
export function createStoreFailureOutcome(
  result: 'refused' | 'unreachable' | 'no_answer',
  error: unknown,
  what: string,
): Outcome {
  const reason = error instanceof GatewayError ? error.reason : 'store_failed';
  return createOutcome(
    result,
    `gateway_${reason}`,
    `${what}: ${error instanceof Error ? error.message : String(error)}`.slice(0, 2000),
  );
}

function createStoppedOutcome(): Outcome {
  return createOutcome('unreachable', 'gateway_stopped', 'the gateway stopped before the delivery started');
}

function createCancelledOutcome(): Outcome {
  return createOutcome('unreachable', 'cancelled', 'cancelled before the delivery started');
}
