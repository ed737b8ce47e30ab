import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttachResponse, Welcome } from '../gen/gateway/v1/gateway_service';
import { CommandDesk } from './commands/commandDesk';
import type { GatewayEvent } from './events';
import { GatewayError } from './gatewayError';
import { Attaching } from './link/attaching';
import type { Attachment } from './link/attachment';
import { usualBackoff } from './link/endings';
import { helloMessage } from './link/hello';
import { machineClock } from './machineClock';
import type { Gateway, GatewayOptions, GatewayUplink } from './options';
import { StoreWriter } from './store/storeWriter';
import { UplinkDesk } from './uplinks/uplinkDesk';
import { UplinkSender } from './uplinks/uplinkSender';

const GRACE_MS = 5000;
// 24 days: the longest time of a timer.
const LONGEST_GRACE_MS = 2 ** 31 - 1;
const IDLE_LOOK_MS = 5;

/** The parts of a gateway, put together. */
export class RunningGateway implements Gateway {
  readonly ended: Promise<void>;
  private readonly writer: StoreWriter;
  private readonly commands: CommandDesk;
  private readonly sender: UplinkSender;
  private readonly uplinks: UplinkDesk;
  private readonly attaching: Attaching;
  private readonly running: Promise<void>;
  private isAttached = false;
  private stopping: Promise<void> | undefined;
  /** Why it ended; undefined: it was stopped. */
  private failure: unknown;
  private conclude!: () => void;

  /** The store is open. Throws GatewayError where it cannot be read. */
  constructor(
    private readonly options: GatewayOptions,
    readonly gatewayId: string,
  ) {
    const { store, onEvent } = options;
    const report = (event: GatewayEvent): void => this.report(event);
    const fail = (error: unknown): void => this.fail(error);
    this.writer = new StoreWriter({ store, onFailing: (error) => this.storeFailed(error), onRecovered: () => report({ event: 'store_recovered' }) });
    this.commands = new CommandDesk({
      store,
      writer: this.writer,
      clock: machineClock(),
      deliver: options.deliver,
      deliveriesAtOnce: options.deliveriesAtOnce ?? 64,
      deliveryTimeoutMs: options.deliveryTimeoutMs ?? 60_000,
      withoutReceipts: options.withoutReceipts === true,
      report,
      fail,
    });
    this.sender = new UplinkSender({ store, writer: this.writer, report: onEvent && report, fail });
    const { mostUplinks = 100_000, mostUplinkBytes = 256 * 1024 * 1024 } = options;
    this.uplinks = new UplinkDesk({ writer: this.writer, mostUplinks, mostUplinkBytes, report, onAdded: () => this.sender.added() });
    this.attaching = this.attachingOf(report);
    this.ended = new Promise((resolve, reject) => {
      this.conclude = () => (this.failure === undefined ? resolve() : reject(this.failure));
    });
    this.ended.catch(() => {}); // nobody need wait for it
    this.commands.resume();
    this.running = this.attaching.run().catch(fail);
    if (options.uplinks) void this.uplinks.readAll(options.uplinks).catch((error: unknown) => this.sourceFailed(error));
  }

  async send(uplink: GatewayUplink): Promise<{ readonly uplinkId: string }> {
    return await this.uplinks.send(uplink);
  }

  async stop(graceMs = GRACE_MS): Promise<void> {
    if (!(graceMs >= 0)) throw new GatewayError('options_invalid', 'graceMs must be a number of milliseconds from 0 on; or leave it out');
    this.stopping ??= this.end(Math.min(graceMs, LONGEST_GRACE_MS));
    await this.stopping;
  }

  private attachingOf(report: (event: GatewayEvent) => void): Attaching {
    const { connectionId, software = '', store, backoffMs = usualBackoff, whenRefused = 'retry' } = this.options;
    const facts = { connectionId, gatewayId: this.gatewayId, bootId: randomUUID(), isDurable: store.isDurable, software };
    return new Attaching({
      server: this.options,
      backoffMs,
      whenRefused,
      report,
      hello: async () => helloMessage(facts, await this.commands.known()),
      onMessage: (attachment, message) => this.take(attachment, message),
      onRoom: () => {
        this.commands.roomMade();
        this.sender.roomMade();
      },
      onDetached: () => this.detached(),
    });
  }

  private take(attachment: Attachment, message: NonNullable<AttachResponse['message']>): void {
    switch (message.$case) {
      case 'welcome':
        return this.welcomed(attachment, message.value);
      case 'command':
        return this.commands.take(message.value);
      case 'withdraw':
        return this.commands.withdraw(message.value.executionId);
      case 'commandResultAck':
        return this.commands.acknowledge(message.value.executionId, message.value.outcome);
      case 'uplinkAck':
        return this.sender.acknowledge(message.value);
    }
  }

  private welcomed(attachment: Attachment, welcome: Welcome): void {
    const { maxInFlight, protocolVersion, serverVersion } = welcome;
    const { connectionId } = this.options;
    if (this.isAttached) return; // a server says it once
    this.isAttached = true;
    this.report({ event: 'attached', gatewayId: this.gatewayId, connectionId, maxInFlight, protocolVersion: protocolVersion || 1, serverVersion });
    this.commands.attach(attachment, welcome);
    this.sender.attach(attachment);
  }

  private detached(): void {
    this.isAttached = false;
    this.commands.detach();
    this.sender.detach();
  }

  private storeFailed(error: GatewayError): void {
    this.report({ event: 'store_failing', message: error.message });
    if (error.reason === 'store_damaged') this.fail(error);
  }

  private sourceFailed(error: unknown): void {
    const message = `the source of uplinks threw: ${error instanceof Error ? error.message : String(error)}`;
    this.report({ event: 'source_failed', message });
    this.fail(new GatewayError('source_failed', message, { cause: error }));
  }

  /** It cannot go on: it ends as if it were stopped, and says why. */
  private fail(error: unknown): void {
    if (this.stopping) return;
    this.failure = error;
    void this.stop();
  }

  private async end(graceMs: number): Promise<void> {
    this.uplinks.stop();
    this.commands.stop();
    const grace = new AbortController();
    await Promise.race([this.idle(grace.signal), sleep(graceMs, undefined, { signal: grace.signal })]);
    grace.abort();
    await this.commands.giveUp();
    await this.attaching.stop();
    await this.running;
    try {
      this.writer.close();
      this.options.store.close();
    } catch (error) {
      this.failure ??= error;
    }
    this.commands.close();
    this.conclude();
  }

  /** Resolves when nothing is being delivered and the server has what can be told; uplinks of a durable store can wait for the next start. */
  private async idle(signal: AbortSignal): Promise<void> {
    const isBusy = (): boolean => this.commands.isBusy() || (this.isAttached && !this.options.store.isDurable && !this.sender.isEmpty);
    while (!signal.aborted && isBusy()) await sleep(IDLE_LOOK_MS);
  }

  /** A listener that throws must not change what the gateway does; Node prints what it threw. */
  private report(event: GatewayEvent): void {
    try {
      this.options.onEvent?.(event);
    } catch (error) {
      process.emitWarning(`onEvent of a gateway threw: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}
