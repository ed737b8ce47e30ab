import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js';
import {
  AttachRequest,
  type AttachResponse,
  type Command,
  type CommandResultCode,
  GatewayStore,
  type CommandSnapshot,
  type ResultOutcome,
  type UplinkOutcome,
} from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { optionalTimestamp } from '../../src/kernel/timestamps';
import { headers } from '../support/edge';
import { AS_ONE, type ExecutionFixture } from './executionFixture';

/** The identity and the state of an attaching gateway. By default it is `gw-1` with an empty durable store. */
export interface GatewayOptions {
  readonly connectionId: string;
  readonly gatewayId?: string;
  readonly bootId?: string;
  readonly store?: GatewayStore;
  readonly known?: readonly Partial<CommandSnapshot>[];
  readonly headers?: Record<string, string>;
}

/** A gateway as a client of the server; each test controls what it sends. */
export class TestGateway {
  readonly commands: Command[] = [];
  readonly cancelled: string[] = [];
  readonly acks: { executionId: string; outcome: ResultOutcome }[] = [];
  readonly rejected: { executionId: string; reason: string }[] = [];
  readonly uplinkAcks: { uplinkId: string; outcome: UplinkOutcome }[] = [];
  private readonly waiting = new Set<() => void>();
  private welcomed = false;
  private streamError: ServiceError | undefined;

  private constructor(private readonly stream: ClientDuplexStream<AttachRequest, AttachResponse>) {
    stream.on('data', (response: AttachResponse) => this.handleResponse(response));
    stream.on('error', (error: ServiceError) => {
      this.streamError = error;
      this.notifyWaiting();
    });
    stream.on('end', () => this.notifyWaiting());
  }

  /** Attaches and resolves at the welcome. */
  static async attach(fixture: Pick<ExecutionFixture, 'gateways'>, options: GatewayOptions): Promise<TestGateway> {
    const {
      connectionId,
      gatewayId = 'gw-1',
      bootId = 'boot-1',
      store = GatewayStore.GATEWAY_STORE_DURABLE,
      known = [],
    } = options;
    const gateway = new TestGateway(fixture.gateways.attach(headers(options.headers ?? AS_ONE)));
    gateway.send({
      hello: {
        connectionId,
        gatewayId,
        bootId,
        store,
        known: known.map((one) => ({ executionId: '', status: 1, code: '', message: '', time: undefined, ...one })),
      },
    });
    await gateway.until(() => gateway.welcomed);
    return gateway;
  }

  /** Reports a command as stored on the gateway, at an optional time of its own clock (Unix milliseconds). */
  received(executionId: string, time?: number): void {
    this.send({ commandReceived: { executionId, time: optionalTimestamp(time) } });
  }

  /**
   * Sends an uplink of a device, JSON or bytes, and resolves with its status. `time` is on the gateway's own clock in
   * Unix milliseconds.
   */
  async uplink(
    clientDeviceId: string,
    sent: object | Uint8Array,
    {
      time,
      uplinkId = `u-${newId()}`,
      fPort,
    }: { readonly time?: number; readonly uplinkId?: string; readonly fPort?: number } = {},
  ): Promise<UplinkOutcome> {
    const before = this.uplinkAcks.length;
    const payload = sent instanceof Uint8Array ? { $case: 'bytes', value: sent } : { $case: 'json', value: sent };
    this.send({
      uplink: {
        uplinkId,
        clientDeviceId,
        time: optionalTimestamp(time),
        payload,
        ...(fPort !== undefined && { fPort }),
      },
    });
    const ack = (): { outcome: UplinkOutcome } | undefined =>
      this.uplinkAcks.slice(before).find((one) => one.uplinkId === uplinkId);
    await this.until(() => ack() !== undefined);
    return ack()?.outcome ?? 0;
  }

  /** Reports a result of a command, and resolves with its status. */
  async result(
    executionId: string,
    result: CommandResultCode,
    code = '',
    message = '',
    time = 1_700_000_000_000,
  ): Promise<ResultOutcome> {
    const before = this.acks.length;
    this.send({ commandResult: { executionId, result, code, message, time: optionalTimestamp(time) } });
    const ack = (): { outcome: ResultOutcome } | undefined =>
      this.acks.slice(before).find((one) => one.executionId === executionId);
    await this.until(() => ack() !== undefined);
    return ack()?.outcome ?? 0;
  }

  /** Waits for the n-th command (from 1) and returns it. */
  async command(count: number): Promise<Command> {
    await this.until(() => this.commands.length >= count);
    return this.commands[count - 1] as Command;
  }

  /** Waits for the command of an execution. */
  async untilCommand(executionId: string): Promise<void> {
    await this.until(() => this.commands.some((command) => command.executionId === executionId));
  }

  /** Waits for the cancellation of a command. */
  async untilCancelled(executionId: string): Promise<void> {
    await this.until(() => this.cancelled.includes(executionId));
  }

  /** Waits for this number of acknowledged results. */
  async untilAcks(count: number): Promise<void> {
    await this.until(() => this.acks.length >= count);
  }

  /** Waits for this number of rejected messages. */
  async untilRejected(count: number): Promise<void> {
    await this.until(() => this.rejected.length >= count);
  }

  /** Stops reading, so that messages queue up in the network and then on the server. */
  pause(): void {
    this.stream.pause();
  }

  /** Reads again. */
  resume(): void {
    this.stream.resume();
  }

  /** Sends the same uplink without waiting for anything. */
  abandon(): void {
    this.stream.cancel();
  }

  /** Ends the stream like a lost connection, and resolves when the client has noticed it. */
  async cut(): Promise<void> {
    this.stream.cancel();
    if (!this.streamError) await new Promise<void>((resolve) => this.waiting.add(resolve));
  }

  private send(message: {
    hello?: unknown;
    commandReceived?: unknown;
    commandResult?: unknown;
    uplink?: unknown;
  }): void {
    const [[name, value]] = Object.entries(message) as [[string, unknown]];
    this.stream.write(AttachRequest.fromPartial({ message: { $case: name, value } as never }));
  }

  private async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.streamError) throw this.streamError;
      await new Promise<void>((resolve) => this.waiting.add(resolve));
    }
  }

  private handleResponse({ message }: AttachResponse): void {
    if (message?.$case === 'welcome') this.welcomed = true;
    if (message?.$case === 'command') this.commands.push(message.value);
    if (message?.$case === 'cancelCommand') this.cancelled.push(message.value.executionId);
    this.recordResponse(message);
    this.notifyWaiting();
  }

  private recordResponse(message: AttachResponse['message']): void {
    if (message?.$case === 'commandResultAck') this.acks.push(message.value);
    if (message?.$case === 'messageRejected') this.rejected.push(message.value);
    if (message?.$case === 'uplinkAck') this.uplinkAcks.push(message.value);
  }

  private notifyWaiting(): void {
    for (const resolve of this.waiting) resolve();
    this.waiting.clear();
  }
}
