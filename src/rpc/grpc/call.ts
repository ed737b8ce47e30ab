import { Metadata, ServerInterceptingCall, status, type ServerInterceptingCallInterface } from '@grpc/grpc-js';
import type { Principal } from '../../kernel/principal';
import { admit, enter } from '../admission';
import type { Edge } from '../calls/edge';
import { exchangeOf } from '../calls/exchange';
import type { Exchange, ServedCall } from '../calls/servedCall';
import { requireKnown, type ServedMethod } from '../calls/servedMethod';
import { encodeDetails, fittingMessage, retryPushback } from '../errorDetails';
import type { WireError } from '../errorTable';
import { callerGone, deadlineExceeded, OpenCall, shuttingDown } from '../openCall';
import { requestIdFrom } from '../requestId';
import { asFault } from './transportFaults';

type Status = Parameters<ServerInterceptingCallInterface['sendStatus']>[0];

/**
 * One call, from its headers to its end. grpc-js hands it over as an interceptor would be, and it answers by itself: what the
 * streams and callbacks of grpc-js would add on top is a third of the cost of a small call, and here every end of a call,
 * also one that grpc-js decides on (deadline, message too large), goes through one place.
 */
export class GrpcCall extends ServerInterceptingCall implements ServedCall {
  readonly unsentAtOnce = 16; // to wait for each alone costs a turn of the event loop: a busy server would fall behind a quick reader
  readonly transport = 'grpc';
  readonly context: OpenCall;
  private readonly deadline: number;
  private readonly endBare: (status: Status) => void;
  private readonly unsent = new Set<(reason: Error) => void>();
  private exchange: Exchange | undefined;
  private headersSent = false;
  private finished = false;
  private metadata: Metadata | undefined;

  constructor(
    private readonly edge: Edge,
    readonly method: ServedMethod,
    private readonly wire: ServerInterceptingCallInterface,
  ) {
    super(wire);
    this.endBare = wire.sendStatus.bind(wire);
    // grpc-js ends calls through this method too; so the end is shaped and logged here.
    wire.sendStatus = (given) => this.endAsTold(given);
    this.deadline = deadlineOf(wire);
    this.context = new OpenCall(method.facts.path, peerOf(wire), edge.log, edge.clock.monotonic());
  }

  /** Called by grpc-js with the listener of its own handler, which is left out: the events come here. */
  override start(): void {
    this.edge.open(this);
    this.wire.start(this);
  }

  /** The headers are here: everything that they decide is decided before the message is read. */
  onReceiveMetadata(metadata: Metadata): void {
    this.metadata = metadata;
    this.context.requestId = requestIdFrom(metadata.get('x-request-id')[0]);
    this.edge.began(this);
    try {
      requireKnown(this.method);
      if (this.edge.draining && !this.method.facts.service.startsWith('grpc.health.')) throw shuttingDown();
      const principal = admit(this.edge.authenticator, this.method.facts, keyOf(metadata), this.context.peer);
      if (!(principal instanceof Promise)) this.enter(principal);
      else principal.then((known) => this.enter(known)).catch((error: unknown) => this.fail(error));
    } catch (error) {
      this.fail(error);
    }
  }

  get traceparent(): string | undefined {
    return this.metadata?.get('traceparent')[0]?.toString();
  }

  /** Called by grpc-js with each message that was asked for by `read`. */
  onReceiveMessage(message: unknown): void {
    this.exchange?.onMessage(message);
  }

  /** Called by grpc-js when the caller has sent its last message. */
  onReceiveHalfClose(): void {
    this.exchange?.onHalfClose();
  }

  /** Called by grpc-js after every end of a call; before one of ours it means that the caller went away. */
  onCancel(): void {
    if (this.finished) return;
    const reason = this.isLate() ? deadlineExceeded() : callerGone();
    this.close(reason.kind === 'cancelled' ? status.CANCELLED : status.DEADLINE_EXCEEDED, reason.reason);
    this.abort(reason);
  }

  read(): void {
    this.wire.startRead();
  }

  answer(response: unknown): void {
    if (this.finished) return;
    this.sendHeaders();
    this.wire.sendMessage(response, nothing);
    if (this.finished) return; // it could not be written
    this.succeed();
  }

  async send(response: unknown): Promise<void> {
    if (this.finished || this.context.aborted) throw this.context.aborted ?? callerGone();
    this.sendHeaders();
    await new Promise<void>((resolve, reject) => {
      this.unsent.add(reject);
      this.wire.sendMessage(response, () => {
        this.unsent.delete(reject);
        resolve();
      });
    });
  }

  succeed(): void {
    if (this.context.aborted) this.fail(this.context.aborted);
    if (this.finished) return;
    this.sendHeaders();
    this.close(status.OK, undefined);
    this.endBare(OK);
  }

  fail(error: unknown): void {
    const reason = this.context.aborted ?? error; // the first reason to end is the one that the caller is told
    if (this.finished || reason !== error) this.edge.failedLate(this, error);
    if (this.finished) return;
    const wire = this.edge.told(this, reason);
    const told = this.statusOf(wire);
    this.close(wire.grpc, wire.reason);
    this.endBare(told);
    this.abort(reason instanceof Error ? reason : new Error('the handler failed', { cause: reason }));
  }

  /** What the caller is told. Details that cannot be written are left out and logged: a fault in an error may not end the server. */
  private statusOf(wire: WireError): Status {
    const metadata = new Metadata();
    metadata.set('x-request-id', this.context.requestId);
    const pushback = retryPushback(wire);
    if (pushback !== undefined) metadata.set('grpc-retry-pushback-ms', pushback);
    try {
      metadata.set('grpc-status-details-bin', encodeDetails(wire));
    } catch (err) {
      this.edge.log.error({ method: this.context.path, request_id: this.context.requestId, reason: wire.reason, err }, 'rpc.details_unwritable');
    }
    return { code: wire.grpc, details: fittingMessage(wire.message), metadata };
  }

  abort(reason: Error): void {
    this.context.abort(reason);
    for (const reject of this.unsent) reject(reason);
    this.unsent.clear();
    this.exchange?.onAbort(reason);
  }

  readmit(): Promise<unknown> | undefined {
    return this.edge.readmit(this, keyOf(this.metadata as Metadata));
  }

  prepare(request: unknown): Promise<void> | undefined {
    return this.edge.prepare(this, request);
  }

  changed(request: unknown, response: unknown, error?: unknown): void {
    this.edge.changed(this, request, response, error);
  }

  isLate(): boolean {
    return this.deadline <= Date.now();
  }

  private enter(principal: Principal | undefined): void {
    if (this.finished) return;
    if (principal) enter(this.context, principal, organizationsOf(this.metadata as Metadata), !this.method.isUnary);
    if (!this.method.isUnary) this.edge.streamOpened(this);
    this.exchange = exchangeOf(this);
    this.exchange.start();
  }

  private sendHeaders(): void {
    if (this.headersSent) return;
    this.headersSent = true;
    const headers = new Metadata();
    headers.set('x-request-id', this.context.requestId);
    this.wire.sendMetadata(headers);
  }

  private endAsTold(given: Status): void {
    if (given.code === status.DEADLINE_EXCEEDED && this.deadline === Infinity) return;
    const fault = asFault(given);
    if (fault) this.fail(fault);
    else if (!this.finished) {
      this.close(given.code, undefined);
      const metadata = given.metadata?.clone() ?? new Metadata();
      metadata.set('x-request-id', this.context.requestId);
      this.endBare({ ...given, metadata });
    }
  }

  private close(code: status, reason: string | undefined): void {
    this.finished = true;
    this.edge.closed(this, code, reason);
  }
}

const OK: Status = { code: status.OK, details: '', metadata: null };
const nothing = (): void => {};

// On the machine's clock, as grpc-js counts it, in 32 bits: a deadline of 25 days or more can overflow into the past. Such a one is none.
function deadlineOf(wire: ServerInterceptingCallInterface): number {
  const deadline = Number(wire.getDeadline());
  return deadline < Date.now() - 1000 ? Infinity : deadline;
}

function keyOf(metadata: Metadata): string | undefined {
  const given = metadata.get('x-api-key');
  return given.length === 0 ? undefined : given.join(',');
}

function organizationsOf(metadata: Metadata): string[] {
  return metadata.get('x-organization-id').map(String).filter((one) => one !== '');
}

function peerOf(wire: ServerInterceptingCallInterface): string {
  const address = wire.getConnectionInfo().remoteAddress ?? 'unknown';
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}
