import { type Gateway, GatewayError, type GatewayEvent, type GatewayOptions, startGateway } from '../../../client/gateway';
import { PlantroomError } from '../../../client';
import { DomainError } from '../../../kernel/errors';
import { programVersion } from '../../../kernel/programVersion';
import { UsageError } from '../../exit';
import { deliverToDevice } from './simulatedDelivery';
import { MOST_UPLINKS, SimulatedUplinks } from './simulatedUplinks';
import type { Report, SimulatorEvent, SimulatorOptions } from './simulatorOptions';
import { messageOf, tell } from './simulatorTelling';

const DELIVERY_TIMEOUT_MS = 60_000;

/** The greatest `answerDelayMs`: the library gives up a delivery that takes longer than a timer of Node can be. */
export const LONGEST_DELAY_MS = 2 ** 31 - 1 - DELIVERY_TIMEOUT_MS;

/**
 * Plays a gateway with its devices on the gateway library: attaches, does commands, sends uplinks, reconnects, until `signal` aborts.
 * Rejects with `simulator_refused` when the server will never take it (key, connection, a rule broken), with GatewayError when its store cannot be used.
 */
export async function runSimulator(options: SimulatorOptions, signal: AbortSignal, onEvent: (event: SimulatorEvent) => void): Promise<void> {
  const simulated = new SimulatedGateway(options, signal, onEvent);
  await simulated.run();
}

class SimulatedGateway {
  private readonly gateway: Gateway;
  private readonly uplinks: SimulatedUplinks;
  /** The devices of commands that are being done. */
  private readonly devices = new Map<string, string>();

  constructor(
    private readonly options: SimulatorOptions,
    private readonly signal: AbortSignal,
    private readonly onEvent: (event: SimulatorEvent) => void,
  ) {
    const report: Report = (event, fields) => this.report(event, fields);
    // The library calls back while it starts; it sends nothing before it is there.
    this.uplinks = new SimulatedUplinks(options, { send: async (uplink) => await this.gateway.send(uplink) }, report);
    this.gateway = started(this.libraryOptions());
  }

  async run(): Promise<void> {
    const stop = (): void => void this.stop();
    this.signal.addEventListener('abort', stop, { once: true });
    if (this.signal.aborted) stop();
    else this.uplinks.start();
    try {
      await this.gateway.ended;
    } catch (error) {
      throw error instanceof PlantroomError ? refused(error, this.options.address) : error;
    } finally {
      this.uplinks.stop();
      this.signal.removeEventListener('abort', stop);
    }
  }

  private async stop(): Promise<void> {
    this.uplinks.stop();
    await this.gateway.stop(0);
  }

  private libraryOptions(): GatewayOptions {
    const { address, security, key, organizationId, connectionId, gatewayId, store, devices, answerDelayMs, dropReceived, backoffMs } = this.options;
    return {
      address,
      ...security,
      apiKey: key,
      organizationId,
      connectionId,
      ...(gatewayId !== undefined && { gatewayId }),
      software: `plantroom simulate ${programVersion().version}`,
      store,
      deliver: async (command, { signal }) => {
        this.devices.set(command.executionId, command.clientDeviceId);
        return await deliverToDevice(this.options, command, signal, this.signal);
      },
      onEvent: (event) => this.take(event),
      deliveriesAtOnce: Math.max(1, devices.length), // no device waits for another one
      deliveryTimeoutMs: answerDelayMs + DELIVERY_TIMEOUT_MS,
      mostUplinks: MOST_UPLINKS,
      whenRefused: 'stop',
      withoutReceipts: dropReceived,
      ...(backoffMs && { backoffMs }),
    };
  }

  private take(event: GatewayEvent): void {
    if (event.event === 'uplink_sent') return this.uplinks.sent(event.uplinkId, event.clientDeviceId);
    if (event.event === 'uplink_acknowledged') return this.uplinks.acknowledged(event.uplinkId, event.outcome, event.reason);
    if (event.event === 'detached' && this.signal.aborted) return; // it was told to
    tell(event, (name, fields) => this.report(name, fields), this.options.address);
    if (event.event === 'command_answered') this.done(event.executionId, event.result);
  }

  /** A device shows what it did. */
  private done(executionId: string, result: string): void {
    const device = this.devices.get(executionId);
    this.devices.delete(executionId);
    if (device !== undefined && result === 'accepted') this.uplinks.measure(device);
  }

  private report(event: SimulatorEvent['event'], fields: SimulatorEvent['fields']): void {
    this.onEvent({ event, time: Date.now(), fields });
  }
}

/** A gateway of the library. Throws UsageError for what the command line gave wrongly, GatewayError where the store cannot be used. */
function started(options: GatewayOptions): Gateway {
  try {
    return startGateway(options);
  } catch (error) {
    if (error instanceof GatewayError && error.reason === 'options_invalid') throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

function refused(error: PlantroomError, address: string): DomainError {
  const { status, reason } = error;
  return new DomainError('conflict', 'simulator_refused', `the server refused the gateway: ${status}${reason && ` ${reason}`}: ${messageOf(error, address)}`, { metadata: { reason } });
}
