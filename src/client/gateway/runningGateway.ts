import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttachResponse, Welcome } from '../gen/gateway/v1/gateway_service';
import { CommandProcessor } from './commands/commandProcessor';
import { MAX_TIMER_MS } from '../delay';
import type { GatewayEvent } from './events';
import { GatewayError } from './gatewayError';
import { Attaching } from './link/attaching';
import type { Attachment } from './link/attachment';
import { defaultBackoff } from './link/reconnectPolicy';
import { buildHello } from './link/hello';
import { createMachineClock } from './machineClock';
import type { Gateway, GatewayOptions, GatewayUplink } from './options';
import { StoreWriter } from './store/storeWriter';
import { UplinkQueue } from './uplinks/uplinkQueue';
import { UplinkSender } from './uplinks/uplinkSender';

const DEFAULT_GRACE_MS = 5000;
const IDLE_CHECK_INTERVAL_MS = 5;

/** A gateway, composed of its parts. */
export class RunningGateway implements Gateway {
  readonly ended: Promise<void>;
  private readonly writer: StoreWriter;
  private readonly commands: CommandProcessor;
  private readonly sender: UplinkSender;
  private readonly uplinks: UplinkQueue;
  private readonly attaching: Attaching;
  /** Resolves when `attaching` has stopped. */
  private readonly attachingEnded: Promise<void>;
  private isAttached = false;
  private stopping: Promise<void> | undefined;
  /** The error that ended the gateway; undefined: it was stopped by its owner. */
  private failure: unknown;
  /** Resolves or rejects `ended`, depending on `failure`. */
  private settleEnded!: () => void;

  /** The store must be open. Throws GatewayError if it cannot be read. */
  constructor(
    private readonly options: GatewayOptions,
    readonly gatewayId: string,
  ) {
    const { store, onEvent } = options;
    const report = (event: GatewayEvent): void => this.report(event);
    const fail = (error: unknown): void => this.fail(error);
    this.writer = new StoreWriter({
      store,
      onFailing: (error) => this.handleStoreFailure(error),
      onRecovered: () => report({ event: 'store_recovered' }),
    });
    this.commands = new CommandProcessor({
      store,
      writer: this.writer,
      clock: createMachineClock(),
      deliver: options.deliver,
      maxConcurrentDeliveries: options.maxConcurrentDeliveries ?? 64,
      deliveryTimeoutMs: options.deliveryTimeoutMs ?? 60_000,
      sendReceipts: options.sendReceipts !== false,
      report,
      fail,
    });
    this.sender = new UplinkSender({ store, writer: this.writer, report: onEvent && report, fail });
    const { maxUplinks = 100_000, maxUplinkBytes = 256 * 1024 * 1024 } = options;
    this.uplinks = new UplinkQueue({
      writer: this.writer,
      maxUplinks,
      maxUplinkBytes,
      report,
      onAdded: () => this.sender.onAdded(),
    });
    this.attaching = this.createAttaching(report);
    this.ended = new Promise((resolve, reject) => {
      this.settleEnded = () => (this.failure === undefined ? resolve() : reject(this.failure));
    });
    this.ended.catch(() => {}); // Handling it is optional.
    this.commands.resume();
    this.attachingEnded = this.attaching.run().catch(fail);
    if (options.uplinks)
      void this.uplinks.readAll(options.uplinks).catch((error: unknown) => this.handleSourceFailure(error));
  }

  async send(uplink: GatewayUplink): Promise<{ readonly uplinkId: string }> {
    return await this.uplinks.send(uplink);
  }

  async stop(graceMs = DEFAULT_GRACE_MS): Promise<void> {
    if (!(graceMs >= 0))
      throw new GatewayError('options_invalid', 'graceMs must be a number of milliseconds, 0 or more; or omit it');
    this.stopping ??= this.shutDown(Math.min(graceMs, MAX_TIMER_MS));
    await this.stopping;
  }

  /** Creates the part that keeps a stream to the server open, and connects it with the other parts. */
  private createAttaching(report: (event: GatewayEvent) => void): Attaching {
    const { connectionId, software = '', store, backoffMs = defaultBackoff, onRejected = 'retry' } = this.options;
    const identity = {
      connectionId,
      gatewayId: this.gatewayId,
      bootId: randomUUID(),
      isDurable: store.isDurable,
      software,
    };
    return new Attaching({
      server: this.options,
      backoffMs,
      onRejected,
      report,
      createHello: async () => buildHello(identity, await this.commands.getKnownCommands()),
      onMessage: (attachment, message) => this.handleMessage(attachment, message),
      onWritable: () => {
        this.commands.onWritable();
        this.sender.onWritable();
      },
      onDetached: () => this.handleDetached(),
    });
  }

  /** Passes a message of the server to the part that handles it. */
  private handleMessage(attachment: Attachment, message: NonNullable<AttachResponse['message']>): void {
    switch (message.$case) {
      case 'welcome':
        this.handleWelcome(attachment, message.value);
        break;
      case 'command':
        this.commands.receive(message.value);
        break;
      case 'cancelCommand':
        this.commands.cancelCommand(message.value.executionId);
        break;
      case 'commandResultAck':
        this.commands.acknowledge(message.value);
        break;
      case 'messageRejected': {
        const { executionId, reason } = message.value;
        this.report({ event: 'message_rejected', executionId, reason });
        break;
      }
      case 'uplinkAck':
        this.sender.acknowledge(message.value);
        break;
    }
  }

  /** The server accepted the gateway: starts sending results and uplinks. */
  private handleWelcome(attachment: Attachment, welcome: Welcome): void {
    const { maxInFlight, protocolVersion, serverVersion } = welcome;
    const { connectionId } = this.options;
    if (this.isAttached) return; // A server sends it only once.
    this.isAttached = true;
    this.report({
      event: 'attached',
      gatewayId: this.gatewayId,
      connectionId,
      maxInFlight,
      protocolVersion: protocolVersion || 1,
      serverVersion,
    });
    this.commands.attach(attachment, welcome);
    this.sender.attach(attachment);
  }

  /** The stream has ended: stops sending until the next welcome. */
  private handleDetached(): void {
    this.isAttached = false;
    this.commands.detach();
    this.sender.detach();
  }

  /** Reports that the store fails. A corrupt store stops the gateway; other failures are retried. */
  private handleStoreFailure(error: GatewayError): void {
    this.report({ event: 'store_failing', message: error.message });
    if (error.reason === 'store_corrupt') this.fail(error);
  }

  /** The source of uplinks threw: reports that and stops the gateway. */
  private handleSourceFailure(error: unknown): void {
    const message = `the source of uplinks threw: ${error instanceof Error ? error.message : String(error)}`;
    this.report({ event: 'source_failed', message });
    this.fail(new GatewayError('source_failed', message, { cause: error }));
  }

  /** Stops the gateway because of an error, which `ended` rejects with. */
  private fail(error: unknown): void {
    if (this.stopping) return;
    this.failure = error;
    void this.stop();
  }

  /**
   * Stops accepting, waits at most `graceMs` for running work, aborts the remaining deliveries, and closes the stream
   * and the store, in this order, so that all results are stored and as many as possible are sent.
   */
  private async shutDown(graceMs: number): Promise<void> {
    this.uplinks.stop();
    this.commands.stop();
    const grace = new AbortController();
    await Promise.race([this.waitUntilIdle(grace.signal), sleep(graceMs, undefined, { signal: grace.signal })]);
    grace.abort();
    await this.commands.abortDeliveries();
    await this.attaching.stop();
    await this.attachingEnded;
    try {
      this.writer.close();
      this.options.store.close();
    } catch (error) {
      this.failure ??= error;
    }
    this.commands.close();
    this.settleEnded();
  }

  /**
   * Resolves when no delivery is running and the server has acknowledged all results that can be sent. Uplinks of a
   * durable store can wait for the next start.
   */
  private async waitUntilIdle(signal: AbortSignal): Promise<void> {
    const hasUplinksToSend = (): boolean => this.isAttached && !this.options.store.isDurable && !this.sender.isEmpty;
    const isBusy = (): boolean => this.commands.isBusy() || hasUplinksToSend();
    while (!signal.aborted && isBusy()) await sleep(IDLE_CHECK_INTERVAL_MS);
  }

  /** Calls `onEvent`. An error that it throws must not affect the gateway; Node prints it as a warning. */
  private report(event: GatewayEvent): void {
    try {
      this.options.onEvent?.(event);
    } catch (error) {
      process.emitWarning(`onEvent of a gateway threw: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}
