import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js';
import { AttachRequest, type AttachResponse, type Command, type CommandResultCode, GatewayStore, type KnownCommand, type ResultOutcome } from '../../src/gen/gateway/v1/gateway_service';
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
  static async attach(room: ExecutionRoom, options: GatewayOptions): Promise<TestGateway> {
    const { connectionId, gatewayId = 'gw-1', bootId = 'boot-1', store = GatewayStore.GATEWAY_STORE_DURABLE, known = [] } = options;
    const gateway = new TestGateway(room.gateways.attach(headers(options.headers ?? AS_ONE)));
    gateway.send({ hello: { connectionId, gatewayId, bootId, store, known: known.map((one) => ({ executionId: '', status: 1, code: '', message: '', time: undefined, ...one })) } });
    await gateway.until(() => gateway.welcomed);
    return gateway;
  }

  /** Stored on the gateway. */
  received(executionId: string): void {
    this.send({ commandReceived: { executionId, time: undefined } });
  }

  /** Came to its end on the gateway; resolves with what became of it. */
  async result(executionId: string, result: CommandResultCode, code = '', message = ''): Promise<ResultOutcome> {
    const before = this.acks.length;
    this.send({ commandResult: { executionId, result, code, message, time: { seconds: 1_700_000_000, nanos: 0 } } });
    const ack = (): { outcome: ResultOutcome } | undefined => this.acks.slice(before).find((one) => one.executionId === executionId);
    await this.until(() => ack() !== undefined);
    return ack()?.outcome ?? 0;
  }

  /** The n-th command (from 1) that came; waits for it. */
  async command(count: number): Promise<Command> {
    await this.until(() => this.commands.length >= count);
    return this.commands[count - 1] as Command;
  }

  /** Waits for a command to be taken back. */
  async untilWithdrawn(executionId: string): Promise<void> {
    await this.until(() => this.withdrawn.includes(executionId));
  }

  /** Ends the stream as a lost link does; resolves when this side knows. */
  async cut(): Promise<void> {
    this.stream.cancel();
    if (!this.over) await new Promise<void>((resolve) => this.looking.add(resolve));
  }

  private send(message: { hello?: unknown; commandReceived?: unknown; commandResult?: unknown }): void {
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
    this.look();
  }

  private look(): void {
    for (const resolve of this.looking) resolve();
    this.looking.clear();
  }
}
