import { randomUUID } from 'node:crypto';
import { Client, type CallOptions as GrpcOptions, connectivityState, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import type { CallOptions, ClientOptions, ServerOptions } from '../options';
import { PlantroomError } from '../plantroomError';
import { checkCallOptions, headerMistake, throwIfAny } from './checkOptions';
import type { ServiceDefinition } from './definitions';
import { patience, retryPlan, serviceConfig } from './repeatable';

const DEADLINE_MS = 30_000;
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

  /** A call with one answer. `isRepeatable`: gRPC tries it again; any other first waits for the connection, so that it is not lost to a server that restarts. */
  async answer(isRepeatable: boolean, options: CallOptions, start: (call: CallStart, done: Done) => Cancellable): Promise<unknown> {
    const call = this.prepare(options, options.deadlineMs ?? this.options.deadlineMs ?? DEADLINE_MS);
    if (!isRepeatable) await this.connected(call, options.signal);
    this.requireOpen(options.signal, call.metadata);
    return await new Promise((resolve, reject) => {
      const running = start(call, (error, answer) => {
        release();
        if (error) reject(this.failure(error, call.metadata, options.signal));
        else resolve(answer);
      });
      const release = this.hold(running, options.signal);
    });
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
    if (PlantroomError.from(error).status === 'CANCELLED' && (this.isClosed || signal?.aborted)) return this.ended(metadata, signal);
    const given = PlantroomError.from(error, this.options.address);
    return given.requestId ? given : new PlantroomError(given.message, { ...given, requestId: requestIdOf(metadata) }, { cause: error });
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

  /** Waits for the connection, as long as the pauses between attempts would last; whether it is there is seen by the call. */
  private async connected({ options }: CallStart, signal: AbortSignal | undefined): Promise<void> {
    if (this.patienceMs === 0 || this.client.getChannel().getConnectivityState(true) === connectivityState.READY) return;
    const until = Math.min(Date.now() + this.patienceMs, Number(options.deadline));
    await new Promise<void>((resolve) => {
      const go = (): void => resolve();
      signal?.addEventListener('abort', go, { once: true });
      this.client.waitForReady(until, () => {
        signal?.removeEventListener('abort', go);
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

function requestIdOf(metadata: Metadata): string {
  return String(metadata.get('x-request-id')[0] ?? '');
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'details' in error && 'metadata' in error;
}
