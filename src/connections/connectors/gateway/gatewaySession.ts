import { DomainError } from '../../../kernel/errors';
import type { AttachResponse } from '../../../gen/gateway/v1/gateway_service';
import type { Clock } from '../../../kernel/clock';
import type { Downlink, Peer, SendResult } from '../../connector';
import { commandToMessage } from './gatewayMessages';
import { KeyedQueue } from '../../keyedQueue';
import { Outbox } from './outbox';

/** The gateway of an attachment, and its connection. */
export interface GatewayIdentity {
  readonly organizationId: string;
  readonly connectionId: string;
  readonly gatewayId: string;
  readonly bootId: string;
}

/** Returns the identifier of the clock of a gateway, which is constant over all its starts. */
export function getClockId({ connectionId, gatewayId }: GatewayIdentity): string {
  return `${connectionId}/${gatewayId}`;
}

const MAX_CONCURRENT_JOBS = 64;
const MAX_UNREAD_MESSAGES = 10_000;
const RESPONSE_BATCH_SIZE = 64;

/** One attachment of gateway software, from its Hello to the end of its stream. */
export class GatewaySession {
  /** The received messages that are being stored, in order per device. */
  readonly queue = new KeyedQueue(MAX_CONCURRENT_JOBS);
  /** Rejects with the reason when the session is ended by the server; never resolves. */
  readonly failure: Promise<never>;
  private readonly outbox: Outbox<AttachResponse>;
  /** The ids of the executions that were sent and not yet received by the gateway. */
  private readonly inFlight = new Set<string>();
  private readonly deviceByExecution = new Map<string, string>();
  /**
   * The ids of executions to cancel after the welcome: the gateway may have them from an earlier attachment, and
   * nothing may be sent before its welcome.
   */
  private readonly pendingCancellations = new Set<string>();
  /** Resolves when the state from earlier attachments is applied. */
  private reconciling: Promise<void> = Promise.resolve();
  /** Why the session was ended. */
  private endReason: Error | undefined;
  private rejectFailure: (reason: Error) => void = () => {};
  /** 0 before the welcome. */
  private maxInFlight = 0;

  constructor(
    readonly identity: GatewayIdentity,
    /** A number that is unique over all attachments of this server process. */
    readonly number: number,
    write: (message: AttachResponse) => Promise<void>,
    private readonly clock: Clock,
  ) {
    this.outbox = new Outbox(write);
    this.failure = new Promise<never>((_, reject) => (this.rejectFailure = reject));
    this.failure.catch(() => {}); // avoids an unhandled rejection if nothing awaits it
  }

  /** Whether the session was ended. */
  get isEnded(): boolean {
    return this.endReason !== undefined;
  }

  /** The peer for the higher modules; undefined before the welcome and after the end. */
  get peer(): Peer | undefined {
    if (this.isEnded || !this.isWelcomed) return undefined;
    return {
      peerId: this.identity.gatewayId,
      bootId: this.identity.bootId,
      session: this.number,
      capacity: this.capacity,
    };
  }

  /** Runs the job that applies the state from earlier attachments; `waitUntilDrained` waits for it. */
  async reconcile(job: () => Promise<void>): Promise<void> {
    const reconciling = job();
    // `waitUntilDrained` only waits for the end of the job, whatever its outcome.
    this.reconciling = reconciling.catch(() => {});
    await reconciling;
  }

  /** Sends the welcome, and then the cancellations that were requested before it. From now on commands may be sent. */
  welcome(message: AttachResponse, maxInFlight: number): void {
    this.maxInFlight = maxInFlight;
    void this.outbox.post(() => message);
    for (const executionId of this.pendingCancellations) this.cancelAtGateway(executionId);
    this.pendingCancellations.clear();
  }

  /** Applies a changed policy. Commands in flight are not affected. */
  setMaxInFlight(maxInFlight: number): void {
    if (this.isWelcomed) this.maxInFlight = maxInFlight; // otherwise `welcome` sets it
  }

  /** Sends a command if the in-flight limit allows it and it has not expired when it is written. */
  async send(downlink: Downlink): Promise<SendResult> {
    const { executionId } = downlink;
    if (this.isEnded || this.capacity === 0 || this.inFlight.has(executionId)) return 'not_sent';
    this.inFlight.add(executionId);
    this.deviceByExecution.set(executionId, downlink.clientDeviceId);
    const sent = await this.outbox.post(
      () => commandToMessage(downlink, this.clock.now()),
      executionId,
      estimateSize(downlink.payload),
    );
    if (!sent) this.forget(executionId);
    return sent ? 'sent' : 'not_sent';
  }

  /** Sends a response; resolves when it is passed to the transport or the session has ended. */
  async sendResponse(message: AttachResponse): Promise<void> {
    await this.outbox.post(() => message);
  }

  /** Sends many responses in batches, so that other messages in between do not wait for all of them. */
  async sendAll(messages: readonly AttachResponse[]): Promise<void> {
    for (let start = 0; start < messages.length; start += RESPONSE_BATCH_SIZE) {
      const batch = messages.slice(start, start + RESPONSE_BATCH_SIZE);
      await Promise.all(batch.map(async (message) => await this.sendResponse(message)));
    }
  }

  /**
   * Cancels a command: removes it from the outbox if it is still there, otherwise sends a cancellation to the gateway,
   * after its welcome.
   */
  cancelAtGateway(executionId: string): void {
    if (!this.isWelcomed) {
      this.pendingCancellations.add(executionId);
      return;
    }
    if (this.cancelUnsent(executionId)) return;
    this.forget(executionId);
    if (this.outbox.size >= MAX_UNREAD_MESSAGES) {
      this.end(gatewayTooSlow());
      return;
    }
    void this.outbox.post(() => ({ message: { $case: 'cancelCommand', value: { executionId } } }));
  }

  /**
   * Removes a command from the outbox. True: the command was there, so no byte of it was passed to the transport, and
   * none will be.
   */
  cancelUnsent(executionId: string): boolean {
    const isUnsent = this.outbox.remove(executionId);
    if (isUnsent) this.forget(executionId);
    return isUnsent;
  }

  /**
   * Marks a command as received by the gateway, so it no longer counts as in flight. Returns whether it was in flight.
   */
  markReceived(executionId: string): boolean {
    return this.inFlight.delete(executionId);
  }

  /** Returns the device of a command of this session; undefined for other or final commands. */
  findDevice(executionId: string): string | undefined {
    return this.deviceByExecution.get(executionId);
  }

  /** Forgets a command that is final. */
  forget(executionId: string): void {
    this.inFlight.delete(executionId);
    this.deviceByExecution.delete(executionId);
  }

  /** Ends the session: nothing more is sent or received. Only the first reason counts. */
  end(reason: Error): void {
    if (this.endReason) return;
    this.endReason = reason;
    this.outbox.close();
    this.rejectFailure(reason);
  }

  /** Resolves when everything received before the end is stored. */
  async waitUntilDrained(): Promise<void> {
    await this.reconciling;
    await this.queue.waitUntilIdle();
  }

  private get isWelcomed(): boolean {
    return this.maxInFlight > 0;
  }

  /** How many more commands may be sent now. */
  private get capacity(): number {
    return Math.max(0, this.maxInFlight - this.inFlight.size);
  }
}

/** Returns the approximate size on the wire, bytes. */
function estimateSize(payload: Downlink['payload']): number {
  return payload.kind === 'bytes' ? payload.bytes.length : JSON.stringify(payload.value).length;
}

/** Creates the error that ends the session of a gateway that does not read its messages. */
function gatewayTooSlow(): DomainError {
  return new DomainError(
    'exhausted',
    'gateway_too_slow',
    `the gateway has ${MAX_UNREAD_MESSAGES} unread messages: read the stream faster, then attach again`,
  );
}

/** Returns the fields that identify a session in log lines. */
export function getLogFields(session: GatewaySession): object {
  const { organizationId, connectionId, gatewayId, bootId } = session.identity;
  return {
    organization_id: organizationId,
    connection_id: connectionId,
    gateway_id: gatewayId,
    boot_id: bootId,
    session: session.number,
  };
}
