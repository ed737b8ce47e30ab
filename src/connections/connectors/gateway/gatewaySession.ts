import { DomainError } from '../../../kernel/errors';
import type { AttachResponse } from '../../../gen/gateway/v1/gateway_service';
import type { Clock } from '../../../kernel/clock';
import type { Downlink, Peer, SendResult } from '../../connector';
import { commandToMessage } from './gatewayMessages';
import { OrderedWork } from '../../orderedWork';
import { Outbox } from './outbox';

/** Who attached, and to what. */
export interface GatewayIdentity {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly gatewayId: string;
  readonly bootId: string;
}

/** Whose clock the times of a gateway are of: only its own, over all its starts. */
export function clockOf({ connectionId, gatewayId }: GatewayIdentity): string {
  return `${connectionId}/${gatewayId}`;
}

const JOBS_AT_ONCE = 64;
const MOST_WITHDRAWALS = 10_000;

/** One attachment of gateway software, from its Hello to the end of its stream. */
export class GatewaySession {
  /** What came in and is being stored, in order for each device. */
  readonly work = new OrderedWork(JOBS_AT_ONCE);
  /** Rejects with the reason when the session ends from this side or for want of the other; never resolves. */
  readonly ended: Promise<never>;
  private readonly outbox: Outbox<AttachResponse>;
  private readonly inFlight = new Set<string>();
  private readonly deviceOf = new Map<string, string>();
  /** The gateway may hold them from before, and nothing may come to it before its welcome. */
  private readonly withdrawnEarly = new Set<string>();
  private settling: Promise<void> = Promise.resolve();
  private reason: Error | undefined;
  private rejectEnded: (reason: Error) => void = () => {};
  private maxInFlight = 0;

  constructor(
    readonly identity: GatewayIdentity,
    /** Counts the attachments of this server. */
    readonly number: number,
    write: (message: AttachResponse) => Promise<void>,
    private readonly clock: Clock,
  ) {
    this.outbox = new Outbox(write);
    this.ended = new Promise<never>((_, reject) => (this.rejectEnded = reject));
    this.ended.catch(() => {}); // it may end before or after somebody looks
  }

  /** Whether it was told to end. */
  get isEnded(): boolean {
    return this.reason !== undefined;
  }

  /** What the rooms above see of it; undefined before its welcome and after its end. */
  get peer(): Peer | undefined {
    if (this.isEnded || this.maxInFlight === 0) return undefined;
    return { peerId: this.identity.gatewayId, bootId: this.identity.bootId, session: this.number, capacity: this.capacity };
  }

  /** Settles what is known from before; nothing else of this connection is settled until that is done. */
  async settle(job: () => Promise<void>): Promise<void> {
    const settling = job();
    this.settling = settling.catch(() => {}); // whoever waits for the end of it does not care how it ended
    await settling;
  }

  /** From now on commands may follow the welcome; first what was withdrawn meanwhile. */
  welcome(message: AttachResponse, maxInFlight: number): void {
    this.maxInFlight = maxInFlight;
    void this.outbox.post(() => message);
    for (const executionId of this.withdrawnEarly) this.withdraw(executionId);
    this.withdrawnEarly.clear();
  }

  /** A changed policy; what is under way stays. */
  setMaxInFlight(maxInFlight: number): void {
    if (this.maxInFlight > 0) this.maxInFlight = maxInFlight;
  }

  /** Sends a command if there is room for it and it has not expired when its turn comes. */
  async send(downlink: Downlink): Promise<SendResult> {
    const { executionId } = downlink;
    if (this.isEnded || this.capacity === 0 || this.inFlight.has(executionId)) return 'not_sent';
    this.inFlight.add(executionId);
    this.deviceOf.set(executionId, downlink.clientDeviceId);
    const sent = await this.outbox.post(() => commandToMessage(downlink, this.clock.now()), executionId, sizeOf(downlink.payload));
    if (!sent) this.forget(executionId);
    return sent ? 'sent' : 'not_sent';
  }

  /** Sends an answer; resolves when it was handed to the transport or the session is over. */
  async answer(message: AttachResponse): Promise<void> {
    await this.outbox.post(() => message);
  }

  /** Takes a command back: out of the outbox if it is still there, else by telling the gateway, once it has its welcome. */
  withdraw(executionId: string): void {
    if (this.maxInFlight === 0) return void this.withdrawnEarly.add(executionId);
    if (this.takeBack(executionId)) return;
    this.forget(executionId);
    if (this.outbox.size >= MOST_WITHDRAWALS) return this.end(tooSlow());
    void this.outbox.post(() => ({ message: { $case: 'withdraw', value: { executionId } } }));
  }

  /** Takes a command back that is still in the outbox. True: not one byte of it was handed to the transport, and none will be. */
  takeBack(executionId: string): boolean {
    const isUnsent = this.outbox.drop(executionId);
    if (isUnsent) this.forget(executionId);
    return isUnsent;
  }

  /** The gateway holds the command: it is not in flight any more. Answers whether that made room. */
  received(executionId: string): boolean {
    return this.inFlight.delete(executionId);
  }

  /** The device that a command of this session went to; undefined for others and for ended ones. */
  findDevice(executionId: string): string | undefined {
    return this.deviceOf.get(executionId);
  }

  /** The command is over. */
  forget(executionId: string): void {
    this.inFlight.delete(executionId);
    this.deviceOf.delete(executionId);
  }

  /** Ends the session: nothing leaves any more, nothing more is taken in. The first reason stays. */
  end(reason: Error): void {
    if (this.reason) return;
    this.reason = reason;
    this.outbox.close();
    this.rejectEnded(reason);
  }

  /** Resolves when everything that came in before the end is stored. */
  async drained(): Promise<void> {
    await this.settling;
    await this.work.idle();
  }

  private get capacity(): number {
    return Math.max(0, this.maxInFlight - this.inFlight.size);
  }
}

/** About how many bytes it has on the wire. */
function sizeOf(payload: Downlink['payload']): number {
  return payload.kind === 'bytes' ? payload.bytes.length : JSON.stringify(payload.value).length;
}

function tooSlow(): DomainError {
  return new DomainError('exhausted', 'gateway_too_slow', `the gateway left ${MOST_WITHDRAWALS} messages unread; read the stream faster, then attach again`);
}
