import { type ClientDuplexStream, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import {
  type AttachRequest,
  type AttachResponse,
  CommandResultCode,
  GatewayServiceClient,
  GatewayStore,
  ResultOutcome,
  UplinkOutcome,
} from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';
import type { MeasuredGateway, GatewayPeer, GatewayHandlers } from './measuredGateway';

/** The maximum number of unacknowledged uplinks. */
const MAX_UNACKNOWLEDGED = 1000;

/**
 * A gateway that uses the stubs directly: it attaches, accepts commands, and counts acknowledgements. It stores nothing and
 * does not reconnect.
 */
export class RawGateway implements MeasuredGateway {
  private open = 0;
  private readonly waiting: (() => void)[] = [];
  private drained: Promise<void> | undefined;
  private readonly loss = Promise.withResolvers<never>();
  readonly lost = this.loss.promise;

  private constructor(
    private readonly client: GatewayServiceClient,
    private readonly stream: ClientDuplexStream<AttachRequest, AttachResponse>,
    private readonly hooks: GatewayHandlers,
  ) {
    this.lost.catch(() => {}); // reported to whoever awaits it
    const onEnd = (cause?: ServiceError): void =>
      this.loss.reject(new Error('the stream of the raw gateway ended', { cause }));
    stream.on('error', onEnd).on('end', onEnd);
  }

  /** Attaches; resolves when the server has sent Welcome. */
  static async attach({ server, key, connectionId }: GatewayPeer, hooks: GatewayHandlers): Promise<RawGateway> {
    const ca = server.ca;
    const client = new GatewayServiceClient(
      server.address,
      ca ? credentials.createSsl(ca) : credentials.createInsecure(),
    );
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(server.headers(key))) metadata.set(name, value);
    const stream = client.attach(metadata);
    const gateway = new RawGateway(client, stream, hooks);
    await new Promise<void>((resolve, reject) => {
      gateway.lost.catch(reject);
      stream.on('data', ({ message }: AttachResponse) =>
        message?.$case === 'welcome' ? resolve() : gateway.handleMessage(message),
      );
      const hello = {
        connectionId,
        gatewayId: `bench-${newId()}`,
        bootId: newId(),
        store: GatewayStore.GATEWAY_STORE_VOLATILE,
        known: [],
        lowestProtocolVersion: 1,
        highestProtocolVersion: 1,
        software: 'raw stream',
      };
      stream.write({ message: { $case: 'hello', value: hello } });
    });
    return gateway;
  }

  async uplink(clientDeviceId: string, values: Readonly<Record<string, unknown>>): Promise<void> {
    while (this.open >= MAX_UNACKNOWLEDGED) await new Promise<void>((resolve) => this.waiting.push(resolve));
    this.open += 1;
    const canContinue = this.stream.write({
      message: {
        $case: 'uplink',
        value: {
          uplinkId: newId(),
          clientDeviceId,
          time: toTimestamp(Date.now()),
          payload: { $case: 'json', value: values },
          fPort: undefined,
        },
      },
    });
    if (!canContinue) await (this.drained ??= this.drain());
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

  private handleMessage(message: AttachResponse['message']): void {
    if (message?.$case === 'command') this.acceptCommand(message.value.executionId);
    else if (message?.$case === 'commandResultAck')
      this.hooks.acknowledged(
        message.value.executionId,
        message.value.outcome === ResultOutcome.RESULT_OUTCOME_APPLIED,
      );
    else if (message?.$case === 'uplinkAck') {
      this.open -= 1;
      this.waiting.shift()?.();
      this.hooks.uplinkAcknowledged(
        message.value.uplinkId,
        message.value.outcome === UplinkOutcome.UPLINK_OUTCOME_STORED,
      );
    }
  }

  private acceptCommand(executionId: string): void {
    const time = toTimestamp(Date.now());
    this.stream.write({ message: { $case: 'commandReceived', value: { executionId, time } } });
    this.stream.write({
      message: {
        $case: 'commandResult',
        value: { executionId, result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, code: '', message: '', time },
      },
    });
  }
}
