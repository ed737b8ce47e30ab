import { Server, ServerCredentials, type ServerDuplexStream, status, Metadata } from '@grpc/grpc-js';
import { type AttachRequest, type AttachResponse, type CommandResult, CommandResultCode as Code, GatewayServiceService, type Hello, type KnownCommand, KnownStatus, ResultOutcome, type Uplink, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import type { Random } from '../soak/random';

type Stream = ServerDuplexStream<AttachRequest, AttachResponse>;
type Sent = NonNullable<AttachRequest['message']>;

/** What it knows of a command that it sent. */
interface Ordered {
  readonly executionId: string;
  readonly clientDeviceId: string;
  readonly n: number;
  attempt: number;
  /** The gateway said that it has it. */
  isHeld: boolean;
  isAcknowledged: boolean;
  result: string | undefined;
}

const CHANCE = { sendsTwice: 0.2, sendsAgain: 0.3, cuts: 0.06, acknowledges: 0.7, sendsOldAgain: 0.3 } as const;
const EXPIRES_IN = { seconds: 86_400, nanos: 0 };

/**
 * A server that forgets, as one does that was set back to a backup, and that cuts the link right when something came: it sends commands again that the gateway
 * has, that were done, and whose results it acknowledged. It notes where a gateway contradicts what it said before.
 */
export class ForgetfulServer {
  /** What the gateway said that cannot be. */
  readonly wrong: string[] = [];
  /** How often a command was sent again. */
  sentAgain = 0;
  /** From now on it forgets nothing and acknowledges all. */
  isCalm = false;
  /** The uplinks that came with each value: their ids. */
  readonly uplinks = new Map<string, Set<string>>();
  private readonly orders = new Map<string, Ordered>();
  private readonly server = new Server();
  private stream: Stream | undefined;

  constructor(private readonly random: Random) {}

  /** Resolves to its address. */
  async start(): Promise<string> {
    this.server.addService(GatewayServiceService, { attach: (stream: Stream) => this.attach(stream) });
    const port = await new Promise<number>((resolve, reject) => this.server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound))));
    return `127.0.0.1:${port}`;
  }

  /** Ends it. */
  stop(): void {
    this.server.forceShutdown();
  }

  /** Sends a command, now or when a gateway attaches. */
  order(executionId: string, clientDeviceId: string, n: number): void {
    const ordered: Ordered = { executionId, clientDeviceId, n, attempt: 0, isHeld: false, isAcknowledged: false, result: undefined };
    this.orders.set(executionId, ordered);
    if (this.stream) this.command(ordered);
  }

  /** All that it ordered. */
  get ordered(): readonly Ordered[] {
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
      if (message) this.take(stream, message);
    });
    stream.on('end', () => stream.end());
    for (const end of ['error', 'close', 'cancelled']) stream.on(end, () => {
      if (this.stream === stream) this.stream = undefined;
    });
  }

  private take(stream: Stream, message: Sent): void {
    if (message.$case === 'hello') return this.welcome(stream, message.value);
    if (stream !== this.stream) return; // what came after a cut is lost with it
    if (message.$case === 'uplink') return this.uplink(message.value);
    const ordered = this.orders.get(message.value.executionId);
    if (!ordered) return void this.wrong.push(`the gateway speaks of ${message.value.executionId}, which nobody sent`);
    if (message.$case === 'commandReceived') this.received(ordered);
    else this.result(ordered, message.value);
  }

  private welcome(stream: Stream, { known }: Hello): void {
    this.stream = stream;
    this.send({ $case: 'welcome', value: { serverTime: undefined, maxInFlight: 64, protocolVersion: 1, serverVersion: '0.0.0' } });
    this.compare(known);
    for (const ordered of this.orders.values()) if (!ordered.isAcknowledged || this.forgets(CHANCE.sendsOldAgain)) this.command(ordered);
  }

  /** A durable store has what the gateway said that it has, and the results that it told. */
  private compare(known: readonly KnownCommand[]): void {
    const listed = new Map(known.map((one) => [one.executionId, one]));
    for (const ordered of this.orders.values()) {
      const { executionId, isHeld, isAcknowledged } = ordered;
      const found = listed.get(executionId);
      if (!found) {
        if (isHeld && !isAcknowledged) this.wrong.push(`${executionId} was confirmed, and the next Hello does not list it`);
        continue;
      }
      ordered.isHeld = true;
      if (found.status !== KnownStatus.KNOWN_STATUS_RECEIVED) this.note(ordered, KnownStatus[found.status].replace('KNOWN_STATUS_', ''));
      else if (ordered.result !== undefined) this.wrong.push(`${executionId} was ${ordered.result}, and the next Hello has no result of it`);
    }
  }

  private received(ordered: Ordered): void {
    ordered.isHeld = true;
    if (this.forgets(CHANCE.cuts)) return this.cut();
    if (this.forgets(CHANCE.sendsAgain)) this.command(ordered);
  }

  private result(ordered: Ordered, { result }: CommandResult): void {
    ordered.isHeld = true;
    this.note(ordered, Code[result].replace('COMMAND_RESULT_CODE_', ''));
    if (this.forgets(CHANCE.cuts)) return this.cut();
    if (this.isCalm || this.random.chance(CHANCE.acknowledges)) {
      ordered.isAcknowledged = true;
      this.send({ $case: 'commandResultAck', value: { executionId: ordered.executionId, outcome: ResultOutcome.RESULT_OUTCOME_APPLIED } });
    }
    if (this.forgets(CHANCE.sendsAgain)) this.command(ordered);
  }

  private note(ordered: Ordered, result: string): void {
    if (ordered.result !== undefined && ordered.result !== result) this.wrong.push(`${ordered.executionId} was ${ordered.result}, and then ${result}`);
    ordered.result = result;
  }

  private uplink({ uplinkId, clientDeviceId, payload }: Uplink): void {
    const name = `${clientDeviceId} ${payload?.$case === 'json' ? String((payload.value as { readonly position?: number } | undefined)?.position) : ''}`;
    this.uplinks.set(name, (this.uplinks.get(name) ?? new Set()).add(uplinkId));
    if (this.isCalm || this.random.chance(CHANCE.acknowledges)) this.send({ $case: 'uplinkAck', value: { uplinkId, outcome: UplinkOutcome.UPLINK_OUTCOME_STORED, reason: '' } });
  }

  private command(ordered: Ordered): void {
    const { executionId, clientDeviceId, n } = ordered;
    for (let times = this.forgets(CHANCE.sendsTwice) ? 2 : 1; times > 0; times -= 1) {
      ordered.attempt += 1;
      if (ordered.attempt > 1) this.sentAgain += 1;
      this.send({ $case: 'command', value: { executionId, attempt: ordered.attempt, deadline: undefined, expiresIn: EXPIRES_IN, clientDeviceId, payload: { $case: 'json', value: { n, trigger: executionId } }, fPort: undefined, confirmed: false, topic: '' } });
    }
  }

  private forgets(chance: number): boolean {
    return !this.isCalm && this.random.chance(chance);
  }

  private send(message: NonNullable<AttachResponse['message']>): void {
    this.stream?.write({ message });
  }
}
