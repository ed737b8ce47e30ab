import { randomUUID } from 'node:crypto';
import { Client, type CallOptions as GrpcOptions, connectivityState, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import type { CallOptions, ClientOptions, ServerOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import { checkCallOptions, headerMistake, throwIfAny } from './checkOptions';
import type { ServiceDefinition } from './definitions';
import { patience, retryPlan, serviceConfig } from './repeatable';

const DEADLINE_MS = 30_000;
// grpc-js goes on waiting when nobody does any more, and its timer keeps the process alive so long.
const WAIT_STEP_MS = 500;
// More than any answer about readings holds.
const MOST_BYTES = 16 * 1024 * 1024;

/** What each call is made with. */
export interface CallStart {
  readonly client: Client;
  readonly metadata: Metadata;
  readonly options: GrpcOptions;
}

/** A call that runs. */
interface Cancellable {
  cancel(): void;
}

type Done = (error: ServiceError | null, answer?: unknown) => void;

interface Outcome {
  readonly error: ServiceError | null;
  readonly answer: unknown;
}

/**
 * How a call meets a server that is away: `repeated`: gRPC makes it again by its service config. `once`: it waits for the connection as long as the
 * pauses of the others would last, for what never left may go later. `streamed`: so too, but its requests cannot be had again.
 */
export type CallWay = 'repeated' | 'once' | 'streamed';

/** The connection to a server, and the calls that run on it. */
export class Channel {
  private readonly client: Client;
  private readonly running = new Set<Cancellable>();
  private readonly patienceMs: number;
  private isClosed = false;

  /** `options` are right; see checkClientOptions. */
  constructor(
    private readonly options: ClientOptions,
    services: readonly ServiceDefinition[],
  ) {
    const plan = retryPlan(options.retry);
    this.patienceMs = patience(plan);
    this.client = new Client(options.address, credentialsOf(options), {
      ...CHANNEL_OPTIONS,
      'grpc.service_config': serviceConfig(services, plan),
      'grpc.service_config_disable_resolution': 1,
    });
  }

  /** A call with one answer. */
  async answer(way: CallWay, options: CallOptions, start: (call: CallStart, done: Done) => Cancellable): Promise<unknown> {
    const { signal, deadlineMs = this.options.deadlineMs ?? DEADLINE_MS } = options;
    const call = this.prepare(options, deadlineMs);
    const until = way === 'repeated' ? 0 : Math.min(Date.now() + this.patienceMs, Number(call.options.deadline));
    for (;;) {
      await this.connected(until, signal);
      this.requireOpen(signal, call.metadata);
      const { error, answer } = await this.once(call, signal, start);
      if (!error) return answer;
      if (way !== 'once' || Date.now() >= until || !neverLeft(error)) throw this.failure(error, call.metadata, signal);
    }
  }

  /** What a stream of answers starts with. */
  stream(options: CallOptions): CallStart {
    const call = this.prepare(options, options.deadlineMs);
    this.requireOpen(options.signal, call.metadata);
    return call;
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
    if (error.code === status.CANCELLED && (this.isClosed || signal?.aborted)) return this.ended(metadata, signal);
    const requestId = requestIdOf(metadata);
    // Nobody here ended it: so a server that goes down without grace ends its calls, and some proxies.
    if (error.code === status.CANCELLED) return new PlantroomError('the connection was cut before the answer came', { status: 'UNAVAILABLE', requestId }, { cause: error });
    return PlantroomError.from(error, this.options.address, requestId);
  }

  /** Ends every call with CANCELLED, and the connection. */
  close(): void {
    this.isClosed = true;
    for (const call of this.running) call.cancel();
    this.client.close();
  }

  private prepare(options: CallOptions, deadlineMs: number | undefined): CallStart {
    checkCallOptions(options);
    const metadata = new Metadata();
    metadata.set('x-request-id', options.requestId ?? randomUUID());
    this.requireOpen(options.signal, metadata);
    metadata.set('x-api-key', keyOf(this.options.apiKey));
    metadata.set('x-organization-id', this.options.organizationId);
    return { client: this.client, metadata, options: deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs } };
  }

  private async once(call: CallStart, signal: AbortSignal | undefined, start: (call: CallStart, done: Done) => Cancellable): Promise<Outcome> {
    return await new Promise((resolve) => {
      const running = start(call, (error, answer) => {
        release();
        resolve({ error, answer });
      });
      const release = this.hold(running, signal);
    });
  }

  /** Waits for the connection; whether it is there is seen by the call. */
  private async connected(until: number, signal: AbortSignal | undefined): Promise<void> {
    const channel = this.client.getChannel();
    const mayWait = (): boolean => Date.now() < until && !this.isClosed && !signal?.aborted;
    while (mayWait() && channel.getConnectivityState(true) !== connectivityState.READY) await this.waited(Math.min(until, Date.now() + WAIT_STEP_MS), signal);
  }

  private async waited(until: number, signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve) => {
      const release = this.hold({ cancel: resolve }, signal);
      this.client.waitForReady(until, () => {
        release();
        resolve();
      });
    });
  }

  private requireOpen(signal: AbortSignal | undefined, metadata: Metadata): void {
    if (this.isClosed || signal?.aborted) throw this.ended(metadata, signal);
  }

  private ended(metadata: Metadata, signal: AbortSignal | undefined): PlantroomError {
    const requestId = requestIdOf(metadata);
    if (this.isClosed) return new PlantroomError('the client is closed; make a new one to call again', { status: 'CANCELLED', reason: 'client_closed', requestId });
    return new PlantroomError('the call was ended by its signal', { status: 'CANCELLED', requestId }, { cause: signal?.reason });
  }
}

const CHANNEL_OPTIONS = {
  'grpc.max_receive_message_length': MOST_BYTES,
  'grpc.max_send_message_length': MOST_BYTES,
  // A connection that broke without a word is found within 30 s.
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.keepalive_permit_without_calls': 1,
  // A server that is back is found before the calls that wait for it give up.
  'grpc.initial_reconnect_backoff_ms': 200,
  'grpc.max_reconnect_backoff_ms': 1000,
};

/** What a channel to the server is made with. */
export function credentialsOf({ ca, insecure }: ServerOptions): ReturnType<typeof credentials.createSsl> {
  return insecure ? credentials.createInsecure() : credentials.createSsl(ca === undefined ? null : Buffer.from(ca));
}

/** The key of a call. Throws PlantroomError `options_invalid`, never with the key in it. */
export function keyOf(apiKey: ServerOptions['apiKey']): string {
  if (typeof apiKey === 'string') return apiKey;
  const given: unknown = apiKey();
  const mistake = headerMistake('apiKey', given, 'the key as it was created, plr_…: the function must return it');
  throwIfAny(mistake ? [mistake] : []);
  return given as string;
}

/** Whether the server cannot have seen the call: grpc-js says it in words alone. */
function neverLeft({ code, details }: ServiceError): boolean {
  return code === status.UNAVAILABLE && /^(No connection established|Name resolution failed)/.test(details);
}

function requestIdOf(metadata: Metadata): string {
  return String(metadata.get('x-request-id')[0] ?? '');
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}
