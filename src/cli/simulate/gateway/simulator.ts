import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayServiceClient } from '../../../gen/gateway/v1/gateway_service';
import { DomainError } from '../../../kernel/errors';
import { newId } from '../../../kernel/ids';
import { toTimestamp } from '../../../kernel/timestamps';
import type { WireError } from '../../call/wireError';
import { rawReading } from '../rawReading';
import { Attachment } from './attachment';
import { CommandPlayer } from './commandPlayer';
import type { HeldCommand } from './gatewayMemory';
import type { SimulatorEvent, SimulatorOptions } from './simulatorOptions';
import { UplinkQueue } from './uplinkQueue';

const RESEND_AFTER_MS = 10_000;
const REPLACED_WAIT_MS = 30_000;
const RAW_PORT = 2;

/**
 * Plays a gateway with its devices: attaches, does commands, sends uplinks, reconnects, until `signal` aborts.
 * Rejects with `simulator_refused` when the server will never take it (key, connection, a rule broken).
 */
export async function runSimulator(options: SimulatorOptions, signal: AbortSignal, onEvent: (event: SimulatorEvent) => void): Promise<void> {
  const gateway = new SimulatedGateway(options, onEvent);
  try {
    await gateway.run(signal);
  } finally {
    gateway.close();
  }
}

class SimulatedGateway {
  private readonly client: GatewayServiceClient;
  private readonly bootId = newId();
  private readonly uplinks = new UplinkQueue();
  private readonly player: CommandPlayer;
  private readonly timers: NodeJS.Timeout[] = [];
  /** The stream that was welcomed, while it lives. */
  private attachment: Attachment | undefined;

  constructor(
    private readonly options: SimulatorOptions,
    private readonly onEvent: (event: SimulatorEvent) => void,
  ) {
    this.client = new GatewayServiceClient(options.address, options.credentials, {
      'grpc.keepalive_time_ms': 30_000,
      'grpc.keepalive_timeout_ms': 10_000,
      'grpc.initial_reconnect_backoff_ms': 200,
      'grpc.max_reconnect_backoff_ms': 10_000,
    });
    this.player = new CommandPlayer(options, {
      received: (held) => this.sendReceived(held),
      answered: (held) => this.sendResult(held),
      changed: (clientDeviceId) => this.measure(clientDeviceId),
      report: (event, fields) => this.report(event, fields),
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    this.options.memory.giveUpUnderWay(Date.now());
    this.startTimers();
    for (let failures = 0; !signal.aborted; failures += 1) {
      const { attached, error } = await this.attachOnce(signal);
      if (signal.aborted) return;
      if (error && isForGood(error)) throw new DomainError('conflict', 'simulator_refused', `the server refused the gateway: ${error.status} ${error.reason}: ${error.message}`, { metadata: { reason: error.reason } });
      if (attached) failures = 0;
      const wait = error?.reason === 'gateway_replaced' ? REPLACED_WAIT_MS : this.options.backoffMs(failures);
      this.report('gateway.detached', { ...(error && { status: error.status, reason: error.reason, message: error.message }), retry_in_ms: wait });
      await sleep(wait, undefined, { signal }).catch(() => {}); // aborted: the loop ends
    }
  }

  close(): void {
    this.player.stop();
    for (const timer of this.timers) clearInterval(timer);
    this.client.close();
  }

  /** One stream from Hello to its end. */
  private async attachOnce(signal: AbortSignal): Promise<{ attached: boolean; error: WireError | undefined }> {
    const stream = new Attachment(this.client, this.options, this.bootId, {
      welcome: (maxInFlight) => this.welcomed(stream, maxInFlight),
      command: (command) => this.player.take(command),
      withdraw: (executionId) => this.player.withdraw(executionId),
      resultAcknowledged: (executionId, outcome) => {
        this.options.memory.acknowledge(executionId);
        this.report('command.acknowledged', { execution_id: executionId, outcome });
      },
      uplinkAcknowledged: (uplinkId, outcome, reason) => {
        this.uplinks.acknowledge(uplinkId);
        this.report('uplink.acknowledged', { uplink_id: uplinkId, outcome, ...(reason && { reason }) });
      },
    });
    const close = (): void => stream.close();
    signal.addEventListener('abort', close, { once: true });
    const error = await stream.ended;
    signal.removeEventListener('abort', close);
    const attached = this.attachment === stream;
    this.attachment = undefined;
    return { attached, error };
  }

  private welcomed(stream: Attachment, maxInFlight: number): void {
    this.attachment = stream;
    this.report('gateway.attached', { gateway_id: this.options.gatewayId, connection_id: this.options.connectionId, max_in_flight: maxInFlight });
    // Hello told the results already; only command_result is answered by an acknowledgement.
    for (const held of this.options.memory.open()) if (held.result !== undefined) this.sendResult(held);
    this.sendUplinks(Number.POSITIVE_INFINITY);
  }

  private startTimers(): void {
    const { uplinkIntervalMs, devices } = this.options;
    this.timers.push(setInterval(() => this.sendUplinks(Date.now() - RESEND_AFTER_MS), RESEND_AFTER_MS / 2));
    if (uplinkIntervalMs === 0) return;
    for (const { clientDeviceId } of devices) {
      this.measure(clientDeviceId);
      this.timers.push(setInterval(() => this.measure(clientDeviceId), uplinkIntervalMs));
    }
  }

  private measure(clientDeviceId: string): void {
    const device = this.options.devices.find((candidate) => candidate.clientDeviceId === clientDeviceId);
    if (!device) return;
    const values = device.read();
    const reading = this.options.raw === true ? ({ payload: { $case: 'bytes', value: rawReading(values) }, fPort: RAW_PORT } as const) : ({ payload: { $case: 'json', value: values }, fPort: undefined } as const);
    const { dropped } = this.uplinks.add(clientDeviceId, reading, Date.now());
    if (dropped) this.report('uplink.dropped', { uplink_id: dropped.uplinkId, device: dropped.clientDeviceId });
    this.sendUplinks(1);
  }

  /** Sends those that were last sent before this time (Unix milliseconds). */
  private sendUplinks(before: number): void {
    if (!this.attachment) return;
    for (const uplink of this.uplinks.due(before, Date.now())) {
      const { payload } = uplink;
      this.report('uplink.sent', { uplink_id: uplink.uplinkId, device: uplink.clientDeviceId, ...(payload?.$case === 'bytes' ? { bytes: payload.value.toString('hex') } : { values: payload?.value }) });
      this.attachment.send({ $case: 'uplink', value: uplink });
    }
  }

  private sendReceived({ executionId, time }: HeldCommand): void {
    if (!this.options.dropReceived) this.attachment?.send({ $case: 'commandReceived', value: { executionId, time: toTimestamp(time) } });
  }

  private sendResult({ executionId, result, code, message, time }: HeldCommand): void {
    if (result !== undefined) this.attachment?.send({ $case: 'commandResult', value: { executionId, result, code, message, time: toTimestamp(time) } });
  }

  private report(event: SimulatorEvent['event'], fields: SimulatorEvent['fields']): void {
    this.onEvent({ event, time: Date.now(), fields });
  }
}

/** Nothing that the gateway does later changes these. A disabled connection may be enabled again, a server may come back. */
function isForGood({ status, reason }: WireError): boolean {
  return ['UNAUTHENTICATED', 'PERMISSION_DENIED', 'NOT_FOUND', 'INVALID_ARGUMENT', 'UNIMPLEMENTED'].includes(status) || reason === 'not_a_gateway';
}
