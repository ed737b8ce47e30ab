import { Metadata, ServerInterceptingCall, status, type ServerInterceptingCallInterface } from '@grpc/grpc-js';
import type { Http2Session, ServerHttp2Stream } from 'node:http2';
import { logLateFailure, toClientError } from '../pipeline/callLog';
import type { CallPipeline } from '../pipeline/callPipeline';
import { createExchange } from '../pipeline/exchange';
import type { Exchange, ServerCall } from '../pipeline/serverCall';
import { requireKnown, type MethodHandler } from '../pipeline/methodHandler';
import type { DomainError } from '../../kernel/errors';
import { encodeDetails, truncateMessage, getRetryPushback } from '../errors/errorDetails';
import type { WireError } from '../errors/errorTable';
import { clientCancelled, deadlineExceeded, ActiveCall } from '../pipeline/activeCall';
import { mergeRepeated } from '../pipeline/repeatedHeader';
import { chooseRequestId } from '../pipeline/requestId';
import type { CallTimeouts } from './callTimeouts';
import { explainCallEnd } from './connectionEnd';
import { toTransportError } from './transportErrors';

/** The maximum number of unsent messages of a stream before its handler is asked for the next one. */
const MAX_PENDING_SENDS = 16;

type Status = Parameters<ServerInterceptingCallInterface['sendStatus']>[0];

/**
 * One gRPC call, from its headers to its end. It is registered as a grpc-js interceptor, but handles the call itself
 * instead of passing it on. This avoids the streams and callbacks of grpc-js, which are a third of the cost of a small
 * call. It also sees every end of a call, including those that grpc-js decides (deadline, message too large).
 */
export class GrpcCall extends ServerInterceptingCall implements ServerCall {
  readonly transport = 'grpc';
  readonly context: ActiveCall;
  isFinished = false;
  private readonly stream: ServerHttp2Stream;
  /** Undefined if the stream was closed before the call started. A closed stream has lost it. */
  private readonly http2Session: Http2Session | undefined;
  private readonly deadline: number;
  /** The original `sendStatus` of grpc-js. */
  private readonly originalSendStatus: (status: Status) => void;
  private readonly rejectPendingSends = new Set<(reason: Error) => void>();
  private exchange: Exchange | undefined;
  private areHeadersSent = false;
  private metadata: Metadata | undefined;

  constructor(
    private readonly pipeline: CallPipeline,
    readonly method: MethodHandler,
    private readonly grpcCall: ServerInterceptingCallInterface,
    private readonly timeouts: CallTimeouts,
  ) {
    super(grpcCall);
    this.stream = (grpcCall as unknown as { readonly stream: ServerHttp2Stream }).stream; // grpc-js does not expose it
    this.http2Session = this.stream.session;
    this.originalSendStatus = grpcCall.sendStatus.bind(grpcCall);
    // grpc-js ends calls through this method too. It is replaced so that these ends are converted and logged as well.
    grpcCall.sendStatus = (grpcStatus) => this.endWithStatus(grpcStatus);
    this.deadline = computeDeadline(grpcCall);
    this.context = new ActiveCall(
      method.descriptor.path,
      getClientAddress(grpcCall),
      pipeline.log,
      pipeline.clock.monotonic(),
    );
  }

  /**
   * More than 1, because waiting for each message costs a turn of the event loop, so that a busy server would be slower
   * than its client.
   */
  get maxPendingSends(): number {
    return this.pipeline.responses.isLimitReached(this) ? 1 : MAX_PENDING_SENDS;
  }

  /** The HTTP/2 session of the call, which identifies the network connection. */
  get session(): object {
    return this.http2Session ?? this.stream;
  }

  /** Called by grpc-js with the listener of its handler, which is ignored: this object receives the events. */
  override start(): void {
    this.grpcCall.start(this);
  }

  /** Called by grpc-js with the headers. All checks that need only the headers run before the message is read. */
  onReceiveMetadata(metadata: Metadata): void {
    this.metadata = metadata;
    this.context.requestId = chooseRequestId(metadata.get('x-request-id')[0]);
    // Not in start: grpc-js reports no end for a call that was reset before its headers.
    void this.pipeline.admit(this);
  }

  checkHeaders(): void {
    requireKnown(this.method);
  }

  /**
   * Starts the exchange, which reads the messages. A single request message must arrive in time; a stream of requests
   * may take long.
   */
  startReading(): void {
    if (!this.method.hasRequestStream) this.timeouts.start(this);
    this.exchange = createExchange(this.pipeline, this);
    this.exchange.start();
  }

  get apiKey(): string | undefined {
    return mergeRepeated((this.metadata?.get('x-api-key') ?? []).map(String));
  }

  listOrganizations(): string[] {
    const ids = this.metadata?.get('x-organization-id') ?? [];
    return ids.map((id) => String(id).trim()).filter((id) => id !== '');
  }

  header(name: string): string | undefined {
    return this.metadata?.get(name)[0]?.toString().trim();
  }

  /** Called by grpc-js with each message that `read` requested. */
  onReceiveMessage(message: unknown): void {
    if (!this.isFinished) this.exchange?.onMessage(message);
  }

  /** Called by grpc-js after the client's last message. */
  onReceiveHalfClose(): void {
    this.timeouts.clear(this);
    if (!this.isFinished) this.exchange?.onHalfClose();
  }

  /**
   * Called by grpc-js after every end of a call. If the call has not finished, the client has disconnected or
   * cancelled, or its deadline has passed.
   */
  onCancel(): void {
    this.pipeline.responses.unregisterCall(this);
    // Nobody reads the request any more, so a client that is still sending would keep the stream open indefinitely.
    this.timeouts.closeLater(this.stream);
    if (this.isFinished) return;
    const isDeadlineExceeded = this.isDeadlineExceeded();
    const error = isDeadlineExceeded ? deadlineExceeded() : this.explainEnd();
    this.close(isDeadlineExceeded ? status.DEADLINE_EXCEEDED : status.CANCELLED, error.reason);
    this.abort(error);
  }

  read(): void {
    this.grpcCall.startRead();
  }

  /** Sends the only response and ends the call with OK. Does nothing if the call has ended. */
  respond(response: unknown): void {
    if (this.isFinished) return;
    this.sendHeaders();
    this.grpcCall.sendMessage(response, noop);
    if (this.isFinished) return; // the response could not be written
    this.updateUnreadBytes();
    this.succeed();
  }

  /** Sends one message of a stream. Resolves when grpc-js has passed the message on, rejects if the call has ended. */
  async send(response: unknown): Promise<void> {
    if (this.isFinished || this.context.abortReason) throw this.context.abortReason ?? clientCancelled();
    this.sendHeaders();
    await new Promise<void>((resolve, reject) => {
      this.rejectPendingSends.add(reject);
      this.grpcCall.sendMessage(response, () => {
        this.rejectPendingSends.delete(reject);
        this.updateUnreadBytes();
        resolve();
      });
      this.updateUnreadBytes();
    });
  }

  /** Ends the call with OK, or with the abort reason if it was aborted. */
  succeed(): void {
    if (this.context.abortReason) this.fail(this.context.abortReason);
    if (this.isFinished) return;
    this.sendHeaders();
    this.close(status.OK, undefined);
    this.originalSendStatus(OK);
  }

  /**
   * Ends the call with an error, or with the abort reason if it was aborted before. The client receives only this first
   * error; a later one is logged.
   */
  fail(error: unknown): void {
    const firstError = this.context.abortReason ?? error;
    if (this.isFinished || firstError !== error) logLateFailure(this, error);
    if (this.isFinished) return;
    const wireError = toClientError(this, firstError);
    const errorStatus = this.toStatus(wireError);
    this.close(wireError.grpc, wireError.reason);
    this.originalSendStatus(errorStatus);
    this.abort(firstError instanceof Error ? firstError : new Error('the handler failed', { cause: firstError }));
  }

  /** Converts an error to a gRPC status. Details that cannot be encoded are omitted and logged; they must not throw. */
  private toStatus(wireError: WireError): Status {
    const metadata = new Metadata();
    metadata.set('x-request-id', this.context.requestId);
    const pushback = getRetryPushback(wireError);
    if (pushback !== undefined) metadata.set('grpc-retry-pushback-ms', pushback);
    try {
      metadata.set('grpc-status-details-bin', encodeDetails(wireError));
    } catch (err) {
      this.pipeline.log.error(
        { method: this.context.path, request_id: this.context.requestId, reason: wireError.reason, err },
        'rpc.error_details_encode_failed',
      );
    }
    return { code: wireError.grpc, details: truncateMessage(wireError.message), metadata };
  }

  /** Signals the handler to stop and rejects the pending sends. */
  abort(reason: Error): void {
    this.context.abort(reason);
    for (const reject of this.rejectPendingSends) reject(reason);
    this.rejectPendingSends.clear();
    this.exchange?.onAbort(reason);
  }

  isDeadlineExceeded(): boolean {
    return this.deadline <= Date.now();
  }

  /** Creates the error for a call that the client cancelled, or whose connection has ended. */
  private explainEnd(): DomainError {
    return explainCallEnd(this.stream, this.http2Session);
  }

  /** Updates the response budget with the bytes that the client has not read. */
  private updateUnreadBytes(): void {
    this.pipeline.responses.setUnreadBytes(this, this.stream.writableLength);
  }

  /** Sends the response headers once, before the first message or the status. */
  private sendHeaders(): void {
    if (this.areHeadersSent) return;
    this.areHeadersSent = true;
    const headers = new Metadata();
    headers.set('x-request-id', this.context.requestId);
    if (this.context.isReplay) headers.set('idempotency-replayed', 'true');
    this.grpcCall.sendMetadata(headers);
  }

  /**
   * Ends the call with a status that grpc-js determined, for example for an expired deadline or a message that is too
   * large.
   */
  private endWithStatus(grpcStatus: Status): void {
    // grpc-js has computed a deadline that is ignored, see computeDeadline.
    if (grpcStatus.code === status.DEADLINE_EXCEEDED && this.deadline === Infinity) return;
    const transportError = toTransportError(grpcStatus);
    const error = transportError?.kind === 'cancelled' ? this.explainEnd() : transportError;
    if (error) this.fail(error);
    else if (!this.isFinished) {
      this.close(grpcStatus.code, undefined);
      const metadata = grpcStatus.metadata?.clone() ?? new Metadata();
      metadata.set('x-request-id', this.context.requestId);
      this.originalSendStatus({ ...grpcStatus, metadata });
    }
  }

  /** Marks the call as ended and reports its end. The caller then sends the status. */
  private close(code: status, errorReason: string | undefined): void {
    this.isFinished = true;
    this.timeouts.clear(this);
    this.pipeline.onEnd(this, { code, reason: errorReason, http: undefined });
  }
}

const OK: Status = { code: status.OK, details: '', metadata: null };
const noop = (): void => {};

/**
 * Returns the deadline of the call in Unix milliseconds; Infinity if it has none. grpc-js computes the deadline in 32
 * bits, so a deadline of 25 days or more can overflow into the past. Such a deadline is ignored.
 */
function computeDeadline(grpcCall: ServerInterceptingCallInterface): number {
  const deadline = Number(grpcCall.getDeadline());
  return deadline < Date.now() - 1000 ? Infinity : deadline;
}

const IPV4_PREFIX = '::ffff:';

/** Returns the IP address of the client; an IPv4 address without the IPv6 prefix `::ffff:`. */
function getClientAddress(grpcCall: ServerInterceptingCallInterface): string {
  const address = grpcCall.getConnectionInfo().remoteAddress ?? 'unknown';
  return address.startsWith(IPV4_PREFIX) ? address.slice(IPV4_PREFIX.length) : address;
}
