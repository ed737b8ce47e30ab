import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js';
import { AttachRequest, type AttachResponse, type Command, type CommandResultCode, GatewayStore, type KnownCommand, type ResultOutcome, type UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { optionalTimestamp } from '../../src/kernel/timestamps';
import { headers } from '../support/edge';
import { AS_ONE, type ExecutionRoom } from './executionRoom';

/** Who attaches, and with what; the rest is a gateway `gw-1` with a durable store that holds nothing. */
export interface GatewayOptions {
  readonly connectionId: string;
  readonly gatewayId?: string;
  readonly bootId?: string;
  readonly store?: GatewayStore;
  readonly known?: readonly Partial<KnownCommand>[];
  readonly headers?: Record<string, string>;
}

/** Gateway software as a client of the server: says what a test makes it say. */
export class TestGateway {
  readonly commands: Command[] = [];
  readonly withdrawn: string[] = [];
  readonly acks: { executionId: string; outcome: ResultOutcome }[] = [];
  readonly uplinkAcks: { uplinkId: string; outcome: UplinkOutcome }[] = [];
  private readonly looking = new Set<() => void>();
  private welcomed = false;
  private over: ServiceError | undefined;

  private constructor(private readonly stream: ClientDuplexStream<AttachRequest, AttachResponse>) {
    stream.on('data', (response: AttachResponse) => this.take(response));
    stream.on('error', (error: ServiceError) => {
      this.over = error;
      this.look();
    });
    stream.on('end', () => this.look());
  }

  /** Attaches; resolves at the welcome. */
  static async attach(room: Pick<ExecutionRoom, 'gateways'>, options: GatewayOptions): Promise<TestGateway> {
    const { connectionId, gatewayId = 'gw-1', bootId = 'boot-1', store = GatewayStore.GATEWAY_STORE_DURABLE, known = [] } = options;
    const gateway = new TestGateway(room.gateways.attach(headers(options.headers ?? AS_ONE)));
    gateway.send({ hello: { connectionId, gatewayId, bootId, store, known: known.map((one) => ({ executionId: '', status: 1, code: '', message: '', time: undefined, ...one })) } });
    await gateway.until(() => gateway.welcomed);
    return gateway;
  }

  /** Stored on the gateway, at a time (Unix milliseconds) of its own clock if it says one. */
  received(executionId: string, time?: number): void {
    this.send({ commandReceived: { executionId, time: optionalTimestamp(time) } });
  }

  /** A device sent this, JSON or bytes; resolves with what became of it. `time`: on the gateway's own clock, Unix milliseconds. */
  async uplink(clientDeviceId: string, sent: object | Uint8Array, { time, uplinkId = `u-${newId()}`, fPort }: { readonly time?: number; readonly uplinkId?: string; readonly fPort?: number } = {}): Promise<UplinkOutcome> {
    const before = this.uplinkAcks.length;
    const payload = sent instanceof Uint8Array ? { $case: 'bytes', value: sent } : { $case: 'json', value: sent };
    this.send({ uplink: { uplinkId, clientDeviceId, time: optionalTimestamp(time), payload, ...(fPort !== undefined && { fPort }) } });
    const ack = (): { outcome: UplinkOutcome } | undefined => this.uplinkAcks.slice(before).find((one) => one.uplinkId === uplinkId);
    await this.until(() => ack() !== undefined);
    return ack()?.outcome ?? 0;
  }

  /** Came to its end on the gateway; resolves with what became of it. */
  async result(executionId: string, result: CommandResultCode, code = '', message = '', time = 1_700_000_000_000): Promise<ResultOutcome> {
    const before = this.acks.length;
    this.send({ commandResult: { executionId, result, code, message, time: optionalTimestamp(time) } });
    const ack = (): { outcome: ResultOutcome } | undefined => this.acks.slice(before).find((one) => one.executionId === executionId);
    await this.until(() => ack() !== undefined);
    return ack()?.outcome ?? 0;
  }

  /** The n-th command (from 1) that came; waits for it. */
  async command(count: number): Promise<Command> {
    await this.until(() => this.commands.length >= count);
    return this.commands[count - 1] as Command;
  }

  /** Waits for the command of an execution. */
  async untilCommand(executionId: string): Promise<void> {
    await this.until(() => this.commands.some((command) => command.executionId === executionId));
  }

  /** Waits for a command to be taken back. */
  async untilWithdrawn(executionId: string): Promise<void> {
    await this.until(() => this.withdrawn.includes(executionId));
  }

  /** Stops reading: what comes waits in the network, and soon on the server. */
  pause(): void {
    this.stream.pause();
  }

  /** Reads again. */
  resume(): void {
    this.stream.resume();
  }

  /** The same without waiting for anything. */
  abandon(): void {
    this.stream.cancel();
  }

  /** Ends the stream as a lost link does; resolves when this side knows. */
  async cut(): Promise<void> {
    this.stream.cancel();
    if (!this.over) await new Promise<void>((resolve) => this.looking.add(resolve));
  }

  private send(message: { hello?: unknown; commandReceived?: unknown; commandResult?: unknown; uplink?: unknown }): void {
    const [[name, value]] = Object.entries(message) as [[string, unknown]];
    this.stream.write(AttachRequest.fromPartial({ message: { $case: name, value } as never }));
  }

  private async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.over) throw this.over;
      await new Promise<void>((resolve) => this.looking.add(resolve));
    }
  }

  private take({ message }: AttachResponse): void {
    if (message?.$case === 'welcome') this.welcomed = true;
    if (message?.$case === 'command') this.commands.push(message.value);
    if (message?.$case === 'withdraw') this.withdrawn.push(message.value.executionId);
    if (message?.$case === 'commandResultAck') this.acks.push(message.value);
    this.takeUplinkAck(message);
    this.look();
  }

  private takeUplinkAck(message: AttachResponse['message']): void {
    if (message?.$case === 'uplinkAck') this.uplinkAcks.push(message.value);
  }

  private look(): void {
    for (const resolve of this.looking) resolve();
    this.looking.clear();
  }
}
