import { Server, ServerCredentials, type ServerDuplexStream, status, Metadata } from '@grpc/grpc-js';
import {
  type AttachRequest,
  type AttachResponse,
  type CommandResult,
  CommandResultCode as Code,
  GatewayServiceService,
  type Hello,
  type CommandSnapshot,
  CommandSnapshotStatus,
  ResultOutcome,
  type Uplink,
  UplinkOutcome,
} from '../../src/gen/gateway/v1/gateway_service';
import type { Random } from '../soak/random';

type Stream = ServerDuplexStream<AttachRequest, AttachResponse>;
type Sent = NonNullable<AttachRequest['message']>;

/** The state of a command that the server sent. */
interface SentCommand {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly n: number;
  attempt: number;
  /** Whether the gateway confirmed the command. */
  isReceived: boolean;
  isAcknowledged: boolean;
  result: string | undefined;
}

const PROBABILITY = { sendTwice: 0.2, resend: 0.3, cut: 0.06, acknowledge: 0.7, resendOld: 0.3 } as const;
const EXPIRES_IN = { seconds: 86_400, nanos: 0 };

/**
 * A server that forgets, like one that was restored from a backup, and that cuts the link right after a message arrived.
 * It repeats commands that the gateway has, that were carried out, and whose results it acknowledged. It records where a
 * gateway contradicts an earlier message.
 */
export class ForgetfulServer {
  /** Contradictory messages of the gateway. */
  readonly wrong: string[] = [];
  /** How often a command was sent again. */
  resentCount = 0;
  /** Whether the server forgets nothing and acknowledges everything. */
  isReliable = false;
  /** The ids of the received uplinks, by device and value. */
  readonly uplinks = new Map<string, Set<string>>();
  private readonly orders = new Map<string, SentCommand>();
  private readonly server = new Server();
  private stream: Stream | undefined;

  constructor(private readonly random: Random) {}

  /** Starts the server and resolves to its address. */
  async start(): Promise<string> {
    this.server.addService(GatewayServiceService, { attach: (stream: Stream) => this.attach(stream) });
    const port = await new Promise<number>((resolve, reject) =>
      this.server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    return `127.0.0.1:${port}`;
  }

  /** Stops the server. */
  stop(): void {
    this.server.forceShutdown();
  }

  /** Sends a command, now or when a gateway attaches. */
  order(executionId: string, clientDeviceId: string, n: number): void {
    const sentCommand: SentCommand = {
      executionId,
      clientDeviceId,
      n,
      attempt: 0,
      isReceived: false,
      isAcknowledged: false,
      result: undefined,
    };
    this.orders.set(executionId, sentCommand);
    if (this.stream) this.sendCommand(sentCommand);
  }

  /** All commands that were ordered. */
  get ordered(): readonly SentCommand[] {
    return [...this.orders.values()];
  }

  /** Cuts the link. */
  cut(): void {
    const { stream } = this;
    this.stream = undefined;
    stream?.emit('error', { code: status.UNAVAILABLE, details: 'cut', metadata: new Metadata() });
  }

  private attach(stream: Stream): void {
    this.stream = undefined;
    stream.on('data', ({ message }: AttachRequest) => {
      if (message) this.handleMessage(stream, message);
    });
    stream.on('end', () => stream.end());
    for (const end of ['error', 'close', 'cancelled'])
      stream.on(end, () => {
        if (this.stream === stream) this.stream = undefined;
      });
  }

  private handleMessage(stream: Stream, message: Sent): void {
    if (message.$case === 'hello') return this.handleHello(stream, message.value);
    if (stream !== this.stream) return; // messages after a cut are lost
    if (message.$case === 'uplink') return this.handleUplink(message.value);
    const sentCommand = this.orders.get(message.value.executionId);
    if (!sentCommand)
      return void this.wrong.push(`the gateway reported ${message.value.executionId}, which was never sent`);
    if (message.$case === 'commandReceived') this.handleReceived(sentCommand);
    else this.handleResult(sentCommand, message.value);
  }

  private handleHello(stream: Stream, { known }: Hello): void {
    this.stream = stream;
    this.send({
      $case: 'welcome',
      value: { serverTime: undefined, maxInFlight: 64, protocolVersion: 1, serverVersion: '0.0.0' },
    });
    this.checkHello(known);
    for (const sentCommand of this.orders.values())
      if (!sentCommand.isAcknowledged || this.misbehaves(PROBABILITY.resendOld)) this.sendCommand(sentCommand);
  }

  /** Checks that Hello lists the commands that the gateway confirmed, with the results that it reported. */
  private checkHello(known: readonly CommandSnapshot[]): void {
    const listed = new Map(known.map((one) => [one.executionId, one]));
    for (const sentCommand of this.orders.values()) {
      const { executionId, isReceived, isAcknowledged } = sentCommand;
      const found = listed.get(executionId);
      if (!found) {
        if (isReceived && !isAcknowledged)
          this.wrong.push(`${executionId} was confirmed, but the next Hello does not list it`);
        continue;
      }
      sentCommand.isReceived = true;
      if (found.status !== CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED)
        this.recordResult(sentCommand, CommandSnapshotStatus[found.status].replace('COMMAND_SNAPSHOT_STATUS_', ''));
      else if (sentCommand.result !== undefined)
        this.wrong.push(`${executionId} was ${sentCommand.result}, but the next Hello does not contain this result`);
    }
  }

  private handleReceived(sentCommand: SentCommand): void {
    sentCommand.isReceived = true;
    if (this.misbehaves(PROBABILITY.cut)) return this.cut();
    if (this.misbehaves(PROBABILITY.resend)) this.sendCommand(sentCommand);
  }

  private handleResult(sentCommand: SentCommand, { result }: CommandResult): void {
    sentCommand.isReceived = true;
    this.recordResult(sentCommand, Code[result].replace('COMMAND_RESULT_CODE_', ''));
    if (this.misbehaves(PROBABILITY.cut)) return this.cut();
    if (this.isReliable || this.random.chance(PROBABILITY.acknowledge)) {
      sentCommand.isAcknowledged = true;
      const { executionId } = sentCommand;
      this.send({
        $case: 'commandResultAck',
        value: { executionId, outcome: ResultOutcome.RESULT_OUTCOME_APPLIED, reason: '' },
      });
    }
    if (this.misbehaves(PROBABILITY.resend)) this.sendCommand(sentCommand);
  }

  private recordResult(sentCommand: SentCommand, result: string): void {
    if (sentCommand.result !== undefined && sentCommand.result !== result)
      this.wrong.push(`${sentCommand.executionId} was ${sentCommand.result}, and then ${result}`);
    sentCommand.result = result;
  }

  private handleUplink({ uplinkId, clientDeviceId, payload }: Uplink): void {
    const name = `${clientDeviceId} ${payload?.$case === 'json' ? String((payload.value as { readonly position?: number } | undefined)?.position) : ''}`;
    this.uplinks.set(name, (this.uplinks.get(name) ?? new Set()).add(uplinkId));
    if (this.isReliable || this.random.chance(PROBABILITY.acknowledge))
      this.send({ $case: 'uplinkAck', value: { uplinkId, outcome: UplinkOutcome.UPLINK_OUTCOME_STORED, reason: '' } });
  }

  private sendCommand(sentCommand: SentCommand): void {
    const { executionId, clientDeviceId, n } = sentCommand;
    for (let times = this.misbehaves(PROBABILITY.sendTwice) ? 2 : 1; times > 0; times -= 1) {
      sentCommand.attempt += 1;
      if (sentCommand.attempt > 1) this.resentCount += 1;
      this.send({
        $case: 'command',
        value: {
          executionId,
          attempt: sentCommand.attempt,
          deadline: undefined,
          expiresIn: EXPIRES_IN,
          clientDeviceId,
          payload: { $case: 'json', value: { n, trigger: executionId } },
          fPort: undefined,
          confirmed: false,
          topic: '',
        },
      });
    }
  }

  private misbehaves(chance: number): boolean {
    return !this.isReliable && this.random.chance(chance);
  }

  private send(message: NonNullable<AttachResponse['message']>): void {
    this.stream?.write({ message });
  }
}
