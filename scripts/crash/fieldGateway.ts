import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { ClientDuplexStream } from '@grpc/grpc-js';
import { type AttachRequest, type AttachResponse, type Command, CommandResultCode, GatewayStore, type KnownCommand, KnownStatus } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';
import { Arrivals } from './arrivals';
import type { Clients } from './clients';
import { FieldUplinks } from './fieldUplinks';
import type { Conditions } from './killPoints';
import type { World } from './world';

const REATTACH_MS = 20;
const MOST_LOOKS = 500;

type Stream = ClientDuplexStream<AttachRequest, AttachResponse>;

/** How a command ended, as a result and in a Hello. */
interface Result {
  readonly code: CommandResultCode;
  readonly status: KnownStatus;
}

interface Held {
  readonly command: Command;
  /** On the monotonic clock. */
  readonly expiresAt: number;
  result: Result | undefined;
  isWithdrawn: boolean;
}

const DONE: Result = { code: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, status: KnownStatus.KNOWN_STATUS_ACCEPTED };
const EXPIRED: Result = { code: CommandResultCode.COMMAND_RESULT_CODE_EXPIRED, status: KnownStatus.KNOWN_STATUS_EXPIRED };
const WITHDRAWN: Result = { code: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE, status: KnownStatus.KNOWN_STATUS_UNREACHABLE };

/** The gateway software of the site. It lives on when the server dies. It does not look whether it did a command before: that must not happen. */
export class FieldGateway {
  /** How often a command came that it held already, or had done and forgotten. */
  sentAgain = 0;
  /** Called with each command when it is stored, before the server hears of that. */
  onCommand: () => void = () => {};
  readonly uplinks: FieldUplinks;
  readonly arrivals = new Arrivals();
  private readonly held = new Map<string, Held>();
  private readonly ever = new Set<string>();
  private bootId = newId();
  private stream: Stream | undefined;
  private isWelcome = false;
  private clients: Clients | undefined;
  private following: Promise<void> = Promise.resolve();

  constructor(
    private readonly connectionId: string,
    private readonly conditions: Pick<Conditions, 'store' | 'slowestMs'>,
    private readonly world: World,
  ) {
    this.uplinks = new FieldUplinks((message) => this.send(message));
  }

  /** A server is there: attaches to it and stays attached. */
  follow(clients: Clients): void {
    this.clients = clients;
    this.following = this.stayAttached(clients);
  }

  /** The server is gone; resolves when its last message has been read. */
  async leave(): Promise<void> {
    this.clients = undefined;
    this.stream?.cancel();
    await this.following;
  }

  /** Resolves when it holds nothing more that the server has to acknowledge, or has not for long. */
  async idle(): Promise<void> {
    for (let look = 0; this.held.size > 0 && look < MOST_LOOKS; look += 1) await wait(REATTACH_MS);
  }

  /** A start of the gateway software: one without a durable store remembers nothing. What it was about to do, it does not. */
  async reboot(): Promise<void> {
    this.bootId = newId();
    if (this.conditions.store === 'volatile') {
      this.held.clear();
      this.uplinks.forgetOpen();
    }
    this.stream?.cancel();
    await wait(0);
  }

  private async stayAttached(clients: Clients): Promise<void> {
    while (this.clients === clients) {
      await this.attachOnce(clients);
      if (this.clients === clients) await wait(REATTACH_MS);
    }
  }

  /** One stream, from its Hello to its end. A stream that ended brings nothing more, so the Hello of the next knows all that was received. */
  private async attachOnce(clients: Clients): Promise<void> {
    const stream = clients.gateway.attach(clients.metadata);
    this.stream = stream;
    stream.on('data', (response: AttachResponse) => {
      if (this.stream === stream) this.take(response.message);
    });
    stream.write({ message: { $case: 'hello', value: this.hello() } });
    await new Promise<void>((resolve) => {
      stream.on('error', () => resolve()); // the server was killed, or this side left
      stream.on('end', () => resolve());
    });
    this.stream = undefined;
    this.isWelcome = false;
  }

  private hello() {
    const known = [...this.held.values()].map((held): KnownCommand => ({ executionId: held.command.executionId, status: held.result?.status ?? KnownStatus.KNOWN_STATUS_RECEIVED, code: '', message: '', time: toTimestamp(Date.now()) }));
    return { connectionId: this.connectionId, gatewayId: 'field-gateway', bootId: this.bootId, store: this.conditions.store === 'durable' ? GatewayStore.GATEWAY_STORE_DURABLE : GatewayStore.GATEWAY_STORE_VOLATILE, known, lowestProtocolVersion: 0, highestProtocolVersion: 0, software: '' };
  }

  private take(message: AttachResponse['message']): void {
    switch (message?.$case) {
      case 'welcome':
        return this.welcomed();
      case 'command':
        return this.takeCommand(message.value);
      case 'withdraw':
        return this.takeWithdrawal(message.value.executionId);
      case 'commandResultAck':
        this.held.delete(message.value.executionId);
        return;
      case 'uplinkAck':
        return this.uplinks.acknowledged(message.value);
      case undefined:
        throw new Error('the server sent a message that is none');
    }
  }

  private welcomed(): void {
    this.isWelcome = true;
    for (const held of this.held.values()) this.report(held);
    this.uplinks.resend();
  }

  private takeCommand(command: Command): void {
    const { executionId, expiresIn } = command;
    this.arrivals.note(command);
    if (this.ever.has(executionId)) this.sentAgain += 1;
    this.ever.add(executionId);
    const held: Held = { command, expiresAt: performance.now() + (expiresIn ? expiresIn.seconds * 1000 + expiresIn.nanos / 1e6 : 0), result: undefined, isWithdrawn: false };
    this.held.set(executionId, held);
    setTimeout(() => this.carryOut(held), 1 + randomInt(this.conditions.slowestMs));
    this.onCommand();
    this.send({ $case: 'commandReceived', value: { executionId, time: toTimestamp(Date.now()) } });
  }

  private takeWithdrawal(executionId: string): void {
    const held = this.held.get(executionId);
    if (held) held.isWithdrawn = true;
  }

  private carryOut(held: Held): void {
    const { executionId, clientDeviceId, payload } = held.command;
    if (this.held.get(executionId) !== held) return; // forgotten by a reboot
    if (performance.now() >= held.expiresAt) held.result = EXPIRED;
    else if (held.isWithdrawn) held.result = WITHDRAWN;
    else {
      this.world.carryOut({ executionId, clientDeviceId, payload: payload?.$case === 'bytes' ? JSON.parse(payload.value.toString()) : payload?.value });
      held.result = DONE;
    }
    this.report(held);
    this.uplinks.measured(clientDeviceId, this.world.positions.get(clientDeviceId) ?? 0);
  }

  private report({ command, result }: Held): void {
    if (result !== undefined) this.send({ $case: 'commandResult', value: { executionId: command.executionId, result: result.code, code: '', message: '', time: toTimestamp(Date.now()) } });
  }

  private send(message: NonNullable<AttachRequest['message']>): void {
    if (this.isWelcome) this.stream?.write({ message });
  }
}
