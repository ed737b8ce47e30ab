import {
  type Gateway,
  GatewayError,
  type GatewayEvent,
  type GatewayOptions,
  startGateway,
} from '../../../client/gateway';
import { PlantroomError } from '../../../client';
import { DomainError } from '../../../kernel/errors';
import { getProgramVersion } from '../../../kernel/programVersion';
import { UsageError } from '../../exit';
import { deliverToDevice } from './simulatedDelivery';
import { MAX_UPLINKS, SimulatedUplinks } from './simulatedUplinks';
import type { Report, SimulatorEvent, SimulatorOptions } from './simulatorOptions';
import { formatMessage, reportEvent } from './eventReporter';

const DELIVERY_TIMEOUT_MS = 60_000;

/** The maximum `answerDelayMs`: the delivery timeout of the library must not exceed the maximum of a Node.js timer. */
export const MAX_DELAY_MS = 2 ** 31 - 1 - DELIVERY_TIMEOUT_MS;

/**
 * Simulates a gateway with its devices, based on the gateway library: attaches, executes commands, sends uplinks and
 * reconnects until `signal` aborts. Rejects with `connection_refused` if the server rejects it permanently (key,
 * connection, invalid message), with GatewayError if its store cannot be used.
 */
export async function runSimulator(
  options: SimulatorOptions,
  signal: AbortSignal,
  onEvent: (event: SimulatorEvent) => void,
): Promise<void> {
  const simulated = new SimulatedGateway(options, signal, onEvent);
  await simulated.run();
}

class SimulatedGateway {
  private readonly gateway: Gateway;
  private readonly uplinks: SimulatedUplinks;
  /** The devices of commands in progress. */
  private readonly deviceIdByExecutionId = new Map<string, string>();

  constructor(
    private readonly options: SimulatorOptions,
    private readonly signal: AbortSignal,
    private readonly onEvent: (event: SimulatorEvent) => void,
  ) {
    const report: Report = (event, fields) => this.report(event, fields);
    // The library calls back during its start, but sends nothing before `gateway` is set.
    this.uplinks = new SimulatedUplinks(options, { send: async (uplink) => await this.gateway.send(uplink) }, report);
    this.gateway = startLibraryGateway(this.createLibraryOptions());
  }

  /** Sends uplinks until the signal aborts or the server rejects the gateway. */
  async run(): Promise<void> {
    const stop = (): void => void this.stop();
    this.signal.addEventListener('abort', stop, { once: true });
    if (this.signal.aborted) stop();
    else this.uplinks.start();
    try {
      await this.gateway.ended;
    } catch (error) {
      throw error instanceof PlantroomError ? toConnectionRefused(error, this.options.address) : error;
    } finally {
      this.uplinks.stop();
      this.signal.removeEventListener('abort', stop);
    }
  }

  private async stop(): Promise<void> {
    this.uplinks.stop();
    await this.gateway.stop(0); // without waiting for running deliveries
  }

  /** Creates the options of the gateway library. */
  private createLibraryOptions(): GatewayOptions {
    const {
      address,
      security,
      key,
      organizationId,
      connectionId,
      gatewayId,
      store,
      devices,
      answerDelayMs,
      sendReceipts,
      backoffMs,
    } = this.options;
    return {
      address,
      ...security,
      apiKey: key,
      organizationId,
      connectionId,
      ...(gatewayId !== undefined && { gatewayId }),
      software: `plantroom simulate ${getProgramVersion().version}`,
      store,
      deliver: async (command, { signal }) => {
        this.deviceIdByExecutionId.set(command.executionId, command.clientDeviceId);
        return await deliverToDevice(this.options, command, signal, this.signal);
      },
      onEvent: (event) => this.handleEvent(event),
      maxConcurrentDeliveries: Math.max(1, devices.length), // no device waits for another one
      deliveryTimeoutMs: answerDelayMs + DELIVERY_TIMEOUT_MS,
      maxUplinks: MAX_UPLINKS,
      onRejected: 'stop',
      sendReceipts,
      ...(backoffMs && { backoffMs }),
    };
  }

  /** Reports an event of the library. After a command, the device also sends its new state. */
  private handleEvent(event: GatewayEvent): void {
    if (event.event === 'uplink_sent') return this.uplinks.reportSent(event.uplinkId, event.clientDeviceId);
    if (event.event === 'uplink_acknowledged')
      return this.uplinks.reportAcknowledged(event.uplinkId, event.outcome, event.reason);
    if (event.event === 'detached' && this.signal.aborted) return; // the simulation is stopping
    reportEvent(event, (name, fields) => this.report(name, fields), this.options.address);
    if (event.event === 'command_answered') this.reportNewState(event.executionId, event.result);
  }

  /** Sends the new state of the device after a command. */
  private reportNewState(executionId: string, result: string): void {
    const deviceId = this.deviceIdByExecutionId.get(executionId);
    this.deviceIdByExecutionId.delete(executionId);
    if (deviceId !== undefined && result === 'accepted') this.uplinks.sendReadings(deviceId);
  }

  private report(event: SimulatorEvent['event'], fields: SimulatorEvent['fields']): void {
    this.onEvent({ event, time: Date.now(), fields });
  }
}

/**
 * Starts a gateway of the library. Throws UsageError for invalid command-line values, GatewayError if the store cannot
 * be used.
 */
function startLibraryGateway(options: GatewayOptions): Gateway {
  try {
    return startGateway(options);
  } catch (error) {
    if (error instanceof GatewayError && error.reason === 'options_invalid')
      throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

function toConnectionRefused(error: PlantroomError, address: string): DomainError {
  const { status, reason } = error;
  return new DomainError(
    'conflict',
    'connection_refused',
    `the server rejected the gateway: ${status}${reason && ` ${reason}`}: ${formatMessage(error, address)}`,
    { metadata: { reason } },
  );
}
