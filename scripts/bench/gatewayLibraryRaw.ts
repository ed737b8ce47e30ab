import { type ClientDuplexStream, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { type AttachRequest, type AttachResponse, CommandResultCode, GatewayServiceClient, GatewayStore, ResultOutcome, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';
import type { MeasuredGateway, Seat, WayHooks } from './measuredGateway';

/** Uplinks that may be without an answer. */
const WINDOW = 1000;

/** What the maker of a gateway would write with the stubs alone: it attaches, answers commands, counts what was acknowledged. It keeps nothing, and does not come back. */
export class RawGateway implements MeasuredGateway {
  private open = 0;
  private readonly waiting: (() => void)[] = [];
  private drained: Promise<void> | undefined;
  private readonly loss = Promise.withResolvers<never>();
  readonly lost = this.loss.promise;

  private constructor(
    private readonly client: GatewayServiceClient,
    private readonly stream: ClientDuplexStream<AttachRequest, AttachResponse>,
    private readonly hooks: WayHooks,
  ) {
    this.lost.catch(() => {}); // whoever waits for it is told
    const lose = (cause?: ServiceError): void => this.loss.reject(new Error('the stream of the raw gateway ended', { cause }));
    stream.on('error', lose).on('end', lose);
  }

  /** Attaches; resolves when the server has welcomed it. */
  static async attach({ server, key, connectionId }: Seat, hooks: WayHooks): Promise<RawGateway> {
    const ca = server.ca;
    const client = new GatewayServiceClient(server.address, ca ? credentials.createSsl(ca) : credentials.createInsecure());
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(server.headers(key))) metadata.set(name, value);
    const stream = client.attach(metadata);
    const gateway = new RawGateway(client, stream, hooks);
    await new Promise<void>((resolve, reject) => {
      gateway.lost.catch(reject);
      stream.on('data', ({ message }: AttachResponse) => (message?.$case === 'welcome' ? resolve() : gateway.heard(message)));
      const hello = { connectionId, gatewayId: `bench-${newId()}`, bootId: newId(), store: GatewayStore.GATEWAY_STORE_VOLATILE, known: [], lowestProtocolVersion: 1, highestProtocolVersion: 1, software: 'raw stream' };
      stream.write({ message: { $case: 'hello', value: hello } });
    });
    return gateway;
  }

  async uplink(clientDeviceId: string, values: Readonly<Record<string, unknown>>): Promise<void> {
    while (this.open >= WINDOW) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.open += 1;
    const hasRoom = this.stream.write({ message: { $case: 'uplink', value: { uplinkId: newId(), clientDeviceId, time: toTimestamp(Date.now()), payload: { $case: 'json', value: values }, fPort: undefined } } });
    if (!hasRoom) await (this.drained ??= this.drain());
  }

  async detach(): Promise<void> {
    const ended = new Promise((resolve) => this.stream.once('end', resolve));
    this.stream.end();
    await ended;
    this.client.close();
  }

  private async drain(): Promise<void> {
    await new Promise((resolve) => this.stream.once('drain', resolve));
    this.drained = undefined;
  }

  private heard(message: AttachResponse['message']): void {
    if (message?.$case === 'command') this.answer(message.value.executionId);
    else if (message?.$case === 'commandResultAck') this.hooks.acknowledged(message.value.executionId, message.value.outcome === ResultOutcome.RESULT_OUTCOME_APPLIED);
    else if (message?.$case === 'uplinkAck') {
      this.open -= 1;
      this.waiting.shift()?.();
      this.hooks.uplinked(message.value.uplinkId, message.value.outcome === UplinkOutcome.UPLINK_OUTCOME_STORED);
    }
  }

  private answer(executionId: string): void {
    const time = toTimestamp(Date.now());
    this.stream.write({ message: { $case: 'commandReceived', value: { executionId, time } } });
    this.stream.write({ message: { $case: 'commandResult', value: { executionId, result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, code: '', message: '', time } } });
  }
}
