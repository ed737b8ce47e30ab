import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js';
import {
  type AttachRequest,
  type AttachResponse,
  type CommandResult,
  CommandResultCode,
  type GatewayServiceClient,
  GatewayServiceService,
  GatewayStore,
  type Hello,
  type Uplink,
} from '../../src/gen/gateway/v1/gateway_service';
import { headers, parseError, type GrpcErrorInfo } from '../support/edge';

type Message = NonNullable<AttachResponse['message']>;
type ValueOf<Case> = Message extends infer One
  ? One extends { $case: Case; value: infer Value }
    ? Value
    : never
  : never;

/** Creates a Hello. */
export function createHello(fields: Partial<Hello>): NonNullable<AttachRequest['message']> {
  return {
    $case: 'hello',
    value: {
      connectionId: '',
      gatewayId: 'gateway-a',
      bootId: 'boot-1',
      store: GatewayStore.GATEWAY_STORE_DURABLE,
      known: [],
      lowestProtocolVersion: 0,
      highestProtocolVersion: 0,
      software: '',
      ...fields,
    },
  };
}

/** A gateway on one stream, controlled by a test. */
export class GatewayClient {
  /** The error that ended the stream, or undefined if it ended with OK. */
  readonly ended: Promise<GrpcErrorInfo | undefined>;
  private readonly stream: ClientDuplexStream<AttachRequest | Buffer, AttachResponse>;
  private readonly messages: Message[] = [];
  private waiting: (() => void) | undefined;
  private isOver = false;

  constructor(client: GatewayServiceClient, key: string, organizationId = 'org-1') {
    const { path, requestSerialize, responseDeserialize } = GatewayServiceService.attach;
    const serialize = (message: AttachRequest | Buffer): Buffer =>
      Buffer.isBuffer(message) ? message : requestSerialize(message);
    const metadata = headers({ 'x-api-key': key, 'x-organization-id': organizationId });
    this.stream = client.makeBidiStreamRequest(path, serialize, responseDeserialize, metadata);
    let error: GrpcErrorInfo | undefined;
    this.stream.on('data', (response: AttachResponse) => {
      if (response.message) this.messages.push(response.message);
      this.waiting?.();
    });
    this.stream.on('error', (found: ServiceError) => (error = parseError(found)));
    this.ended = new Promise((resolve) => {
      this.stream.on('status', () =>
        setImmediate(() => {
          this.isOver = true;
          this.waiting?.();
          resolve(error);
        }),
      );
    });
  }

  /** Returns the next message, which must be of this kind. */
  async next<Case extends Message['$case']>(kind: Case): Promise<ValueOf<Case>> {
    while (this.messages.length === 0) {
      if (this.isOver) throw new Error(`the stream ended before a ${kind}: ${JSON.stringify(await this.ended)}`);
      await new Promise<void>((resolve) => (this.waiting = resolve));
    }
    const message = this.messages.shift() as Message;
    if (message.$case !== kind) throw new Error(`a ${kind} was due and ${JSON.stringify(message)} came`);
    return message.value as ValueOf<Case>;
  }

  /** Sends any message. */
  send(message: AttachRequest['message']): void {
    this.stream.write({ message });
  }

  /** Sends arbitrary bytes as one message. */
  sendBytes(bytes: Buffer): void {
    this.stream.write(bytes);
  }

  /** Sends the Hello and waits for the welcome. */
  async attach(hello: Partial<Hello>): Promise<{ maxInFlight: number }> {
    this.hello(hello);
    return await this.next('welcome');
  }

  /** Sends a Hello. */
  hello(hello: Partial<Hello>): void {
    this.send(createHello(hello));
  }

  /** Reports that a command is stored. */
  received(executionId: string): void {
    this.send({ $case: 'commandReceived', value: { executionId, time: { seconds: 100, nanos: 5_000_000 } } });
  }

  /** Reports the result of a command. */
  result(
    executionId: string,
    result: CommandResultCode = CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
    report: Partial<CommandResult> = {},
  ): void {
    this.send({
      $case: 'commandResult',
      value: { executionId, result, code: '', message: '', time: undefined, ...report },
    });
  }

  /** Sends an uplink. */
  uplink(uplinkId: string, fields: Partial<Uplink> = {}): void {
    this.send({
      $case: 'uplink',
      value: {
        uplinkId,
        clientDeviceId: 'device-1',
        time: undefined,
        payload: { $case: 'json', value: { t: 21.5 } },
        fPort: undefined,
        ...fields,
      },
    });
  }

  /** Stops reading until `resume` is called. */
  pause(): void {
    this.stream.pause();
  }

  /** Ends the sending side of the stream. */
  end(): void {
    this.stream.end();
  }

  /** Cancels the stream without notice. */
  cancel(): void {
    this.stream.cancel();
  }
}
