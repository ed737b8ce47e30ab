import { randomUUID } from 'node:crypto';
import { Client, type CallOptions as GrpcOptions, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import type { CallOptions, ClientOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import { Attempts, type CallWay } from './attempts';
import { wasCut } from './brokenLinks';
import { checkCallOptions } from './checkOptions';
import { type Cancellable, lookForConnection } from './connecting';
import { credentialsOf, keyOf } from './credentials';
import type { ServiceDefinition } from './definitions';
import { type RetryPlan, retryPlan, serviceConfig } from './repeatable';

const DEADLINE_MS = 30_000;
// More than any answer about readings holds.
const MOST_BYTES = 16 * 1024 * 1024;

/** What each call is made with. */
export interface CallStart {
  readonly client: Client;
  readonly metadata: Metadata;
  readonly options: GrpcOptions;
}

type Done = (error: ServiceError | null, answer?: unknown) => void;

interface Outcome {
  readonly error: ServiceError | null;
  readonly answer: unknown;
}

/** A call with one answer, from its first attempt to its last. */
interface Answering {
  readonly metadata: Metadata;
  readonly signal: AbortSignal | undefined;
  readonly attempts: Attempts;
}

/** The connection to a server, and the calls that run on it. */
export class Channel {
  private readonly client: Client;
  private readonly running = new Set<Cancellable>();
  private readonly plan: RetryPlan;
  private readonly closing = new AbortController();

  /** `options` are right; see checkClientOptions. */
  constructor(
    private readonly options: ClientOptions,
    services: readonly ServiceDefinition[],
  ) {
    this.plan = retryPlan(options.retry);
    this.client = new Client(options.address, credentialsOf(options), {
      ...CHANNEL_OPTIONS,
      'grpc.service_config': serviceConfig(services, this.plan),
      'grpc.service_config_disable_resolution': 1,
    });
  }

  /** Aborts when it closes. */
  get closed(): AbortSignal {
    return this.closing.signal;
  }

  /** A call with one answer. */
  async answer(way: CallWay, options: CallOptions, start: (call: CallStart, done: Done) => Cancellable): Promise<unknown> {
    const metadata = this.prepare(options, way === 'repeated' && this.plan.attempts > 1);
    const call = { metadata, signal: options.signal, attempts: new Attempts(way, this.plan, options.deadlineMs ?? this.longestMs(way)) };
    for (;;) {
      await this.connected(call);
      const { error, answer } = await this.once(call, start);
      if (!error) return answer;
      const pause = this.isOver(call.signal) ? undefined : call.attempts.pauseAfter(error);
      if (pause === undefined) throw this.failure(error, metadata, call.signal);
      await this.pause(call, pause);
    }
  }

  /** What a stream of answers starts with. */
  stream(options: CallOptions): CallStart {
    const metadata = this.prepare(options, false);
    return { client: this.client, metadata, options: deadlineIn(options.deadlineMs ?? Infinity) };
  }

  /** Ends the call when the signal aborts or the client closes, until what is returned is called. */
  hold(call: Cancellable, signal: AbortSignal | undefined): () => void {
    const cancel = (): void => call.cancel();
    this.running.add(call);
    signal?.addEventListener('abort', cancel, { once: true });
    return () => {
      this.running.delete(call);
      signal?.removeEventListener('abort', cancel);
    };
  }

  /** The error that the caller is given. */
  failure(error: unknown, metadata: Metadata, signal: AbortSignal | undefined): unknown {
    if (!isServiceError(error)) return error;
    if (error.code === status.CANCELLED && this.isOver(signal)) return this.ended(metadata, signal);
    const requestId = requestIdOf(metadata);
    if (wasCut(error)) return new PlantroomError('the connection was cut before the answer came', { status: 'UNAVAILABLE', requestId }, { cause: error });
    return PlantroomError.from(error, this.options.address, requestId);
  }

  /** Ends every call with CANCELLED, and the connection. */
  close(): void {
    this.closing.abort();
    for (const call of this.running) call.cancel();
    this.client.close();
  }

  private longestMs(way: CallWay): number {
    return way === 'streamed' ? Infinity : (this.options.deadlineMs ?? DEADLINE_MS);
  }

  /** What a call is sent with. `waitsForReady`: an attempt of it that finds no connection waits for one. */
  private prepare(options: CallOptions, waitForReady: boolean): Metadata {
    checkCallOptions(options);
    const metadata = new Metadata({ waitForReady });
    metadata.set('x-request-id', options.requestId ?? randomUUID());
    this.requireOpen(options.signal, metadata);
    metadata.set('x-api-key', keyOf(this.options.apiKey));
    metadata.set('x-organization-id', this.options.organizationId);
    return metadata;
  }

  private async once({ metadata, signal, attempts }: Answering, start: (call: CallStart, done: Done) => Cancellable): Promise<Outcome> {
    return await new Promise((resolve) => {
      const running = start({ client: this.client, metadata, options: deadlineIn(attempts.ends - performance.now()) }, (error, answer) => {
        release();
        resolve({ error, answer });
      });
      const release = this.hold(running, signal);
    });
  }

  /** Waits for the connection until it is there. Throws what the call fails with where it does not come. */
  private async connected({ metadata, signal, attempts }: Answering): Promise<void> {
    for (;;) {
      this.requireOpen(signal, metadata);
      const found = await lookForConnection(this.client, { until: attempts.until, ends: attempts.ends, hold: (waiting) => this.hold(waiting, signal) });
      if (found === 'there') return this.requireOpen(signal, metadata);
      if (found === 'late') throw this.late(metadata);
      if (found !== 'waiting') throw this.failure(found, metadata, signal);
    }
  }

  private async pause({ signal, attempts }: Answering, ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        release();
        resolve();
      };
      const timer = setTimeout(end, Math.max(0, Math.min(ms, attempts.ends - performance.now())));
      const release = this.hold({ cancel: end }, signal);
    });
  }

  private isOver(signal: AbortSignal | undefined): boolean {
    return this.closed.aborted || signal?.aborted === true;
  }

  private requireOpen(signal: AbortSignal | undefined, metadata: Metadata): void {
    if (this.isOver(signal)) throw this.ended(metadata, signal);
  }

  private ended(metadata: Metadata, signal: AbortSignal | undefined): PlantroomError {
    const requestId = requestIdOf(metadata);
    if (this.closed.aborted) return new PlantroomError('the client is closed; make a new one to call again', { status: 'CANCELLED', reason: 'client_closed', requestId });
    return new PlantroomError('the call was ended by its signal', { status: 'CANCELLED', requestId }, { cause: signal?.reason });
  }

  private late(metadata: Metadata): PlantroomError {
    const message = `the deadline came before there was a connection to ${this.options.address}; the call was not made`;
    return new PlantroomError(message, { status: 'DEADLINE_EXCEEDED', requestId: requestIdOf(metadata) });
  }
}

const CHANNEL_OPTIONS = {
  'grpc.max_receive_message_length': MOST_BYTES,
  'grpc.max_send_message_length': MOST_BYTES,
  // A connection that broke without a word is found within 40 s. What stands between may call more pings than these too many.
  'grpc.keepalive_time_ms': 30_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.keepalive_permit_without_calls': 1,
  // A server that is back is found before the calls that wait for it give up.
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 1000,
};

function deadlineIn(ms: number): GrpcOptions {
  return ms === Infinity ? {} : { deadline: Date.now() + Math.max(0, ms) };
}

function requestIdOf(metadata: Metadata): string {
  return String(metadata.get('x-request-id')[0] ?? '');
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}
