import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { ClientDuplexStream } from '@grpc/grpc-js';
import {
  type AttachRequest,
  type AttachResponse,
  type Command,
  CommandResultCode,
  GatewayStore,
  type CommandSnapshot,
  CommandSnapshotStatus,
} from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';
import { CommandArrivals } from './commandArrivals';
import type { Clients } from './clients';
import { FieldUplinks } from './fieldUplinks';
import type { Conditions } from './killPoints';
import type { World } from './world';

const REATTACH_MS = 20;
const MAX_POLLS = 500;

type Stream = ClientDuplexStream<AttachRequest, AttachResponse>;

/** The outcome of a command, as a result message and as a status in Hello. */
interface Result {
  readonly code: CommandResultCode;
  readonly status: CommandSnapshotStatus;
}

interface HeldCommand {
  readonly command: Command;
  /** On the monotonic clock. */
  readonly expiresAt: number;
  result: Result | undefined;
  isCancelled: boolean;
}

const DONE: Result = {
  code: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
  status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED,
};
const EXPIRED: Result = {
  code: CommandResultCode.COMMAND_RESULT_CODE_EXPIRED,
  status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_EXPIRED,
};
const CANCELLED: Result = {
  code: CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE,
  status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_UNREACHABLE,
};

/**
 * The gateway of the site, which survives the server. On purpose it does not detect repeated commands, so that a command
 * that the server sends twice is carried out twice.
 */
export class FieldGateway {
  /** How often a command was received that the gateway already held or had finished. */
  resentCount = 0;
  /** Called when a command is stored, before the gateway confirms it. */
  onCommand: () => void = () => {};
  readonly uplinks: FieldUplinks;
  readonly arrivals = new CommandArrivals();
  private readonly held = new Map<string, HeldCommand>();
  private readonly receivedIds = new Set<string>();
  private bootId = newId();
  private stream: Stream | undefined;
  private isWelcome = false;
  private clients: Clients | undefined;
  private attaching: Promise<void> = Promise.resolve();

  constructor(
    private readonly connectionId: string,
    private readonly conditions: Pick<Conditions, 'store' | 'maxDeviceMs'>,
    private readonly world: World,
  ) {
    this.uplinks = new FieldUplinks((message) => this.send(message));
  }

  /** Attaches to a server and stays attached. */
  attachTo(clients: Clients): void {
    this.clients = clients;
    this.attaching = this.stayAttached(clients);
  }

  /** Detaches from the server; resolves when its last message has been read. */
  async detach(): Promise<void> {
    this.clients = undefined;
    this.stream?.cancel();
    await this.attaching;
  }

  /** Resolves when the server has acknowledged all results, or after 10 s. */
  async waitUntilIdle(): Promise<void> {
    for (let poll = 0; this.held.size > 0 && poll < MAX_POLLS; poll += 1) await wait(REATTACH_MS);
  }

  /** Restarts the gateway software. With a volatile store it forgets its commands and does not carry them out. */
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

  /**
   * Runs one stream from Hello to its end. A closed stream delivers no more messages, so the next Hello lists everything
   * that was received.
   */
  private async attachOnce(clients: Clients): Promise<void> {
    const stream = clients.gateway.attach(clients.metadata);
    this.stream = stream;
    stream.on('data', (response: AttachResponse) => {
      if (this.stream === stream) this.handleMessage(response.message);
    });
    stream.write({ message: { $case: 'hello', value: this.createHello() } });
    await new Promise<void>((resolve) => {
      stream.on('error', () => resolve()); // the server was killed, or this side cancelled
      stream.on('end', () => resolve());
    });
    this.stream = undefined;
    this.isWelcome = false;
  }

  private createHello() {
    const known = [...this.held.values()].map((held): CommandSnapshot => ({
      executionId: held.command.executionId,
      status: held.result?.status ?? CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_RECEIVED,
      code: '',
      message: '',
      time: toTimestamp(Date.now()),
    }));
    return {
      connectionId: this.connectionId,
      gatewayId: 'field-gateway',
      bootId: this.bootId,
      store:
        this.conditions.store === 'durable' ? GatewayStore.GATEWAY_STORE_DURABLE : GatewayStore.GATEWAY_STORE_VOLATILE,
      known,
      lowestProtocolVersion: 0,
      highestProtocolVersion: 0,
      software: '',
    };
  }

  private handleMessage(message: AttachResponse['message']): void {
    switch (message?.$case) {
      case 'welcome':
        return this.handleWelcome();
      case 'command':
        return this.handleCommand(message.value);
      case 'cancelCommand':
        return this.handleCancel(message.value.executionId);
      case 'commandResultAck':
        this.held.delete(message.value.executionId);
        return;
      case 'uplinkAck':
        return this.uplinks.handleAck(message.value);
      case 'messageRejected':
        throw new Error(`the server rejected a valid message: ${message.value.reason}`);
      case undefined:
        throw new Error('the server sent an empty message');
    }
  }

  private handleWelcome(): void {
    this.isWelcome = true;
    for (const held of this.held.values()) this.sendResult(held);
    this.uplinks.resend();
  }

  private handleCommand(command: Command): void {
    const { executionId, expiresIn } = command;
    this.arrivals.record(command);
    if (this.receivedIds.has(executionId)) this.resentCount += 1;
    this.receivedIds.add(executionId);
    const held: HeldCommand = {
      command,
      expiresAt: performance.now() + (expiresIn ? expiresIn.seconds * 1000 + expiresIn.nanos / 1e6 : 0),
      result: undefined,
      isCancelled: false,
    };
    this.held.set(executionId, held);
    setTimeout(() => this.carryOut(held), 1 + randomInt(this.conditions.maxDeviceMs));
    this.onCommand();
    this.send({ $case: 'commandReceived', value: { executionId, time: toTimestamp(Date.now()) } });
  }

  private handleCancel(executionId: string): void {
    const held = this.held.get(executionId);
    if (held) held.isCancelled = true;
  }

  private carryOut(held: HeldCommand): void {
    const { executionId, clientDeviceId, payload } = held.command;
    if (this.held.get(executionId) !== held) return; // forgotten by a reboot
    if (performance.now() >= held.expiresAt) held.result = EXPIRED;
    else if (held.isCancelled) held.result = CANCELLED;
    else {
      this.world.carryOut({
        executionId,
        clientDeviceId,
        payload: payload?.$case === 'bytes' ? JSON.parse(payload.value.toString()) : payload?.value,
      });
      held.result = DONE;
    }
    this.sendResult(held);
    this.uplinks.sendPosition(clientDeviceId, this.world.positions.get(clientDeviceId) ?? 0);
  }

  private sendResult({ command, result }: HeldCommand): void {
    if (result !== undefined)
      this.send({
        $case: 'commandResult',
        value: {
          executionId: command.executionId,
          result: result.code,
          code: '',
          message: '',
          time: toTimestamp(Date.now()),
        },
      });
  }

  private send(message: NonNullable<AttachRequest['message']>): void {
    if (this.isWelcome) this.stream?.write({ message });
  }
}
