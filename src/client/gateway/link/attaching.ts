import { Client, Metadata } from '@grpc/grpc-js';
import { getCredentials, getKey } from '../../calls/credentials';
import type { AttachResponse, Hello } from '../../gen/gateway/v1/gateway_service';
import type { ServerOptions } from '../../options';
import { PlantroomError } from '../../plantroomError';
import type { GatewayEvent } from '../events';
import { delay } from '../../delay';
import { Attachment } from './attachment';
import { getBackoff, isPermanentRejection, getPauseAfter } from './reconnectPolicy';

type ServerMessage = NonNullable<AttachResponse['message']>;

/** Dependencies of Attaching. */
export interface AttachingOptions {
  readonly server: ServerOptions;
  readonly backoffMs: (failures: number) => number;
  readonly onRejected: 'retry' | 'stop';
  readonly report: (event: GatewayEvent) => void;
  /** Creates the first message of a stream. */
  readonly createHello: () => Promise<Hello>;
  readonly onMessage: (attachment: Attachment, message: ServerMessage) => void;
  readonly onWritable: () => void;
  readonly onDetached: () => void;
}

const WELCOME_TIMEOUT_MS = 60_000;
// Each attempt uses its own connection: the gateway controls the pauses, and the name is resolved again.
const CHANNEL_OPTIONS = {
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.max_receive_message_length': 16 * 1024 * 1024,
  'grpc.max_send_message_length': -1,
};

/** Keeps the gateway attached: opens a stream, and another one whenever it ends. */
export class Attaching {
  private readonly stopped = new AbortController();
  private attachment: Attachment | undefined;
  private isWelcomed = false;

  constructor(private readonly options: AttachingOptions) {}

  /**
   * Resolves when it was stopped. Rejects with PlantroomError if the server rejected the gateway permanently and
   * `onRejected` is `stop`.
   */
  async run(): Promise<void> {
    for (let failures = 0; ; failures += 1) {
      this.isWelcomed = false;
      const error = await this.attachOnce();
      if (this.isWelcomed) failures = 0; // the attempt succeeded, even if the stream ended later
      if (this.isStopped()) return;
      await this.waitAfter(error, failures);
      if (this.isStopped()) return;
    }
  }

  /** Closes the stream gracefully and opens no other. */
  async stop(): Promise<void> {
    this.stopped.abort();
    await this.attachment?.close();
  }

  private isStopped(): boolean {
    return this.stopped.signal.aborted;
  }

  /** Runs one stream from Hello to its end. Returns the error that ended it; undefined if it ended normally. */
  private async attachOnce(): Promise<PlantroomError | undefined> {
    const { server } = this.options;
    const hello = await this.options.createHello();
    if (this.isStopped()) return undefined;
    const client = new Client(server.address, getCredentials(server), CHANNEL_OPTIONS);
    try {
      const attachment: Attachment = new Attachment({
        client,
        metadata: getMetadata(server),
        hello,
        address: server.address,
        welcomeTimeoutMs: WELCOME_TIMEOUT_MS,
        onWritable: this.options.onWritable,
        onMessage: (message) => {
          if (message.$case === 'welcome') this.isWelcomed = true;
          this.options.onMessage(attachment, message);
        },
      });
      this.attachment = attachment;
      return await attachment.ended;
    } catch (error) {
      return toError(error);
    } finally {
      this.attachment = undefined;
      this.options.onDetached();
      client.close();
    }
  }

  /**
   * Reports why the stream ended, and waits before the next attempt. Throws the error of a permanent rejection if
   * `onRejected` is `stop`.
   */
  private async waitAfter(error: PlantroomError | undefined, failures: number): Promise<void> {
    const { backoffMs, onRejected, report } = this.options;
    const retryInMs = getPauseAfter(error, getBackoff(backoffMs, failures));
    if (error && isPermanentRejection(error)) {
      report({ event: 'refused', error, retryInMs: onRejected === 'stop' ? undefined : retryInMs });
      if (onRejected === 'stop') throw error;
    } else report({ event: 'detached', error, retryInMs });
    await delay(retryInMs, this.stopped.signal);
  }
}

/** Creates the metadata of a stream. Throws what the `apiKey` function throws. */
function getMetadata(server: ServerOptions): Metadata {
  const metadata = new Metadata();
  metadata.set('x-api-key', getKey(server.apiKey));
  metadata.set('x-organization-id', server.organizationId);
  return metadata;
}

/**
 * Wraps an error of the `apiKey` function, which is called again for the next attempt. The message of that error may
 * contain secrets, so it is not copied.
 */
function toError(error: unknown): PlantroomError {
  if (error instanceof PlantroomError) return error;
  return new PlantroomError(
    'the gateway could not connect, because the apiKey function threw; see the cause',
    { status: 'UNAVAILABLE' },
    { cause: error },
  );
}
