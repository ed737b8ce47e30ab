import { credentials, Metadata, Server, ServerCredentials, type ServerDuplexStream, type status } from '@grpc/grpc-js';
import {
  type AttachRequest,
  type AttachResponse,
  type Command,
  GatewayServiceService,
  ResultOutcome,
  UplinkOutcome,
} from '../../src/gen/gateway/v1/gateway_service';

type Sent = NonNullable<AttachRequest['message']>;
type Values = { [Message in Sent as Message['$case']]: Message['value'] };

/** One stream of a gateway, as a server sees it. */
export class FakeStream {
  readonly messages: Sent[] = [];
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly call: ServerDuplexStream<AttachRequest, AttachResponse>) {
    call.on('data', ({ message }: AttachRequest) => {
      if (message) this.messages.push(message);
      for (const wake of this.waiting.splice(0)) wake();
    });
    call.on('end', () => call.end());
    call.on('error', () => {});
  }

  /** Resolves with the first message of this kind from position `from` on. */
  async next<Case extends keyof Values>($case: Case, from = 0): Promise<Values[Case]> {
    return (await this.until((message) => message.$case === $case, from)).value as Values[Case];
  }

  /** Resolves with the first result of this execution from position `from` on. */
  async result(executionId: string, from = 0): Promise<Values['commandResult']> {
    return (
      await this.until(({ $case, value }) => $case === 'commandResult' && value.executionId === executionId, from)
    ).value as Values['commandResult'];
  }

  send(message: NonNullable<AttachResponse['message']>): void {
    this.call.write({ message });
  }

  welcome(): void {
    this.send({
      $case: 'welcome',
      value: { serverTime: undefined, maxInFlight: 16, protocolVersion: 1, serverVersion: '0.0.0' },
    });
  }

  command(executionId: string, fields: Partial<Command> = {}): void {
    const payload = { $case: 'json', value: { position: 40 } } as const;
    this.send({
      $case: 'command',
      value: {
        executionId,
        attempt: 1,
        deadline: undefined,
        expiresIn: { seconds: 60, nanos: 0 },
        clientDeviceId: 'valve-1',
        payload,
        fPort: undefined,
        confirmed: false,
        topic: '',
        ...fields,
      },
    });
  }

  ackResult(executionId: string): void {
    this.send({
      $case: 'commandResultAck',
      value: { executionId, outcome: ResultOutcome.RESULT_OUTCOME_APPLIED, reason: '' },
    });
  }

  ackUplink(uplinkId: string): void {
    this.send({ $case: 'uplinkAck', value: { uplinkId, outcome: UplinkOutcome.UPLINK_OUTCOME_STORED, reason: '' } });
  }

  /** Ends the stream with a status. */
  fail(code: status, details: string): void {
    this.call.emit('error', { code, details, metadata: new Metadata() });
  }

  private async until(isMeant: (message: Sent) => boolean, from: number): Promise<Sent> {
    for (;;) {
      const found = this.messages.slice(from).find(isMeant);
      if (found) return found;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }
}

/** A server for gateways that a test controls. */
export class FakePlantroom {
  readonly streams: FakeStream[] = [];
  address = '';
  readonly credentials = credentials.createInsecure();
  private readonly waiting: (() => void)[] = [];
  private readonly server = new Server();

  async start(): Promise<void> {
    this.server.addService(GatewayServiceService, {
      attach: (call: ServerDuplexStream<AttachRequest, AttachResponse>) => {
        this.streams.push(new FakeStream(call));
        for (const wake of this.waiting.splice(0)) wake();
      },
    });
    const port = await new Promise<number>((resolve, reject) =>
      this.server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    this.address = `127.0.0.1:${port}`;
  }

  /** Resolves with the n-th stream, counted from 0, once it exists. */
  async stream(n: number): Promise<FakeStream> {
    for (;;) {
      const found = this.streams[n];
      if (found) return found;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  stop(): void {
    this.server.forceShutdown();
  }
}
