import { randomUUID } from 'node:crypto';
import { Client, type CallOptions as GrpcOptions, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import type { CallOptions, ClientOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import { Attempts, type RetryMode } from './attempts';
import { wasInterrupted } from './interruptedCalls';
import { checkCallOptions } from './checkOptions';
import { type Cancellable, checkConnection } from './checkConnection';
import { getCredentials, getKey } from './credentials';
import type { ServiceDefinition } from './definitions';
import { type RetryPlan, createRetryPlan, buildServiceConfig } from './repeatable';

const DEFAULT_DEADLINE_MS = 30_000;
// More than any response with readings needs.
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** The client, metadata and gRPC options of one call. */
export interface CallParameters {
  readonly client: Client;
  readonly metadata: Metadata;
  readonly options: GrpcOptions;
}

type ResponseCallback = (error: ServiceError | null, response?: unknown) => void;

interface AttemptResult {
  readonly error: ServiceError | null;
  readonly response: unknown;
}

/** The state of a call with one response that all of its attempts share. */
interface UnaryCall {
  readonly metadata: Metadata;
  readonly signal: AbortSignal | undefined;
  readonly attempts: Attempts;
}

/** The connection to a server and the calls that use it. */
export class Channel {
  private readonly client: Client;
  private readonly runningCalls = new Set<Cancellable>();
  private readonly plan: RetryPlan;
  private readonly closing = new AbortController();

  /** `options` must be valid, see checkClientOptions. */
  constructor(
    private readonly options: ClientOptions,
    services: readonly ServiceDefinition[],
  ) {
    this.plan = createRetryPlan(options.retry);
    this.client = new Client(options.address, getCredentials(options), {
      ...CHANNEL_OPTIONS,
      'grpc.service_config': buildServiceConfig(services, this.plan),
      'grpc.service_config_disable_resolution': 1, // the DNS must not replace this service config
    });
  }

  /** Aborts when the channel is closed. */
  get closed(): AbortSignal {
    return this.closing.signal;
  }

  /**
   * Makes a call with one response and retries it as `mode` permits. `start` makes one attempt: it starts a gRPC call,
   * passes the result to `done`, and returns the call. Rejects with PlantroomError.
   */
  async callUnary(
    mode: RetryMode,
    options: CallOptions,
    start: (call: CallParameters, done: ResponseCallback) => Cancellable,
  ): Promise<unknown> {
    const waitForReady = mode === 'repeated' && this.plan.attempts > 1;
    const metadata = this.createMetadata(options, { waitForReady });
    const call = {
      metadata,
      signal: options.signal,
      attempts: new Attempts(mode, this.plan, options.deadlineMs ?? this.getDefaultDeadlineMs(mode)),
    };
    for (;;) {
      await this.waitForConnection(call);
      const { error, response } = await this.makeAttempt(call, start);
      if (!error) return response;
      const pauseMs = this.isEnded(call.signal) ? undefined : call.attempts.takePauseAfter(error);
      if (pauseMs === undefined) throw this.toCallerError(error, metadata, call.signal);
      await this.pause(call, pauseMs);
    }
  }

  /** Prepares a call with a stream of responses. */
  prepareStream(options: CallOptions): CallParameters {
    const metadata = this.createMetadata(options, { waitForReady: false });
    return { client: this.client, metadata, options: createDeadline(options.deadlineMs ?? Infinity) };
  }

  /** Cancels the call when the signal aborts or the client closes. Returns a function that stops this. */
  cancelOnAbortOrClose(call: Cancellable, signal: AbortSignal | undefined): () => void {
    const cancel = (): void => call.cancel();
    this.runningCalls.add(call);
    signal?.addEventListener('abort', cancel, { once: true });
    return () => {
      this.runningCalls.delete(call);
      signal?.removeEventListener('abort', cancel);
    };
  }

  /** Converts an error of grpc-js to the error for the caller. */
  toCallerError(error: unknown, metadata: Metadata, signal: AbortSignal | undefined): unknown {
    if (!isServiceError(error)) return error;
    if (error.code === status.CANCELLED && this.isEnded(signal)) return this.createCancelledError(metadata, signal);
    const requestId = getRequestId(metadata);
    if (wasInterrupted(error)) {
      return new PlantroomError(
        'the connection was interrupted before the response arrived',
        { status: 'UNAVAILABLE', requestId },
        { cause: error },
      );
    }
    return PlantroomError.from(error, this.options.address, requestId);
  }

  /** Cancels all calls with CANCELLED, and closes the connection. */
  close(): void {
    this.closing.abort();
    for (const call of this.runningCalls) call.cancel();
    this.client.close();
  }

  /** Returns the default duration of a call; a stream of requests has none. */
  private getDefaultDeadlineMs(mode: RetryMode): number {
    return mode === 'streamed' ? Infinity : (this.options.deadlineMs ?? DEFAULT_DEADLINE_MS);
  }

  /**
   * Validates the options of a call and creates its metadata. `waitForReady`: an attempt without a connection waits for
   * one. Throws if the call was cancelled before or the client is closed.
   */
  private createMetadata(options: CallOptions, { waitForReady }: { readonly waitForReady: boolean }): Metadata {
    checkCallOptions(options);
    const metadata = new Metadata({ waitForReady });
    metadata.set('x-request-id', options.requestId ?? randomUUID());
    this.requireOpen(options.signal, metadata);
    metadata.set('x-api-key', getKey(this.options.apiKey));
    metadata.set('x-organization-id', this.options.organizationId);
    return metadata;
  }

  /** Makes one attempt and resolves with its error or its response. */
  private async makeAttempt(
    { metadata, signal, attempts }: UnaryCall,
    start: (call: CallParameters, done: ResponseCallback) => Cancellable,
  ): Promise<AttemptResult> {
    return await new Promise((resolve) => {
      const call = start(
        { client: this.client, metadata, options: createDeadline(attempts.deadline - performance.now()) },
        (error, response) => {
          release();
          resolve({ error, response });
        },
      );
      const release = this.cancelOnAbortOrClose(call, signal);
    });
  }

  /**
   * Waits until the client is connected, in steps of checkConnection. Throws the error of the call if that does not
   * happen in time.
   */
  private async waitForConnection({ metadata, signal, attempts }: UnaryCall): Promise<void> {
    for (;;) {
      this.requireOpen(signal, metadata);
      const state = await checkConnection(this.client, {
        connectUntil: attempts.connectUntil,
        deadline: attempts.deadline,
        cancelOnEnd: (waiting) => this.cancelOnAbortOrClose(waiting, signal),
      });
      if (state === 'connected') {
        this.requireOpen(signal, metadata);
        return;
      }
      if (state === 'deadline_exceeded') throw this.createDeadlineError(metadata);
      if (state !== 'waiting') throw this.toCallerError(state, metadata, signal);
    }
  }

  /** Waits before the next attempt, at most until the deadline of the call, or until the call is cancelled. */
  private async pause({ signal, attempts }: UnaryCall, ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        release();
        resolve();
      };
      const timer = setTimeout(finish, Math.max(0, Math.min(ms, attempts.deadline - performance.now())));
      const release = this.cancelOnAbortOrClose({ cancel: finish }, signal);
    });
  }

  /** Whether the caller cancelled the call, or the client was closed. */
  private isEnded(signal: AbortSignal | undefined): boolean {
    return this.closed.aborted || signal?.aborted === true;
  }

  /** Throws the CANCELLED error if the caller cancelled the call or closed the client. */
  private requireOpen(signal: AbortSignal | undefined, metadata: Metadata): void {
    if (this.isEnded(signal)) throw this.createCancelledError(metadata, signal);
  }

  /** Creates the error for a call that was cancelled by its signal, or because the client was closed. */
  private createCancelledError(metadata: Metadata, signal: AbortSignal | undefined): PlantroomError {
    const requestId = getRequestId(metadata);
    if (this.closed.aborted) {
      return new PlantroomError('the client is closed; create a new client', {
        status: 'CANCELLED',
        reason: 'client_closed',
        requestId,
      });
    }
    return new PlantroomError(
      'the call was cancelled by its signal',
      { status: 'CANCELLED', requestId },
      { cause: signal?.reason },
    );
  }

  /** Creates the error for a call that was never sent, because there was no connection in time. */
  private createDeadlineError(metadata: Metadata): PlantroomError {
    const message = `the deadline expired before a connection to ${this.options.address} was established; the call was not sent`;
    return new PlantroomError(message, { status: 'DEADLINE_EXCEEDED', requestId: getRequestId(metadata) });
  }
}

const CHANNEL_OPTIONS = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  // Detects a dead connection within 40 s. More frequent pings could be rejected by proxies.
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.keepalive_permit_without_calls': 1,
  // Reconnects quickly, so that waiting calls find a restarted server before they fail.
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 1000,
};

/** Converts a duration to the deadline option of grpc-js, which uses the system clock; none for Infinity. */
function createDeadline(ms: number): GrpcOptions {
  return ms === Infinity ? {} : { deadline: Date.now() + Math.max(0, ms) };
}

function getRequestId(metadata: Metadata): string {
  return String(metadata.get('x-request-id')[0] ?? '');
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}
