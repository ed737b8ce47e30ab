import { Client, Metadata } from '@grpc/grpc-js';
import { credentialsOf, keyOf } from '../../calls/credentials';
import type { AttachResponse, Hello } from '../../gen/gateway/v1/gateway_service';
import type { ServerOptions } from '../../options';
import { PlantroomError } from '../../plantroomError';
import type { GatewayEvent } from '../events';
import { pause } from '../pause';
import { Attachment } from './attachment';
import { givenBackoff, isRefusal, pauseAfter } from './endings';

type Came = NonNullable<AttachResponse['message']>;

/** What staying attached needs. */
export interface AttachingOptions {
  readonly server: ServerOptions;
  readonly backoffMs: (failures: number) => number;
  readonly whenRefused: 'retry' | 'stop';
  readonly report: (event: GatewayEvent) => void;
  /** What a stream begins with. */
  readonly hello: () => Promise<Hello>;
  readonly onMessage: (attachment: Attachment, message: Came) => void;
  readonly onRoom: () => void;
  readonly onDetached: () => void;
}

const WELCOME_WITHIN_MS = 60_000;
// A connection of its own for each attempt: the pauses are those of the gateway, and a name is looked up anew.
const CHANNEL = {
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

  /** Resolves when it was stopped. Rejects with PlantroomError where the server refused the gateway and it is to stop then. */
  async run(): Promise<void> {
    for (let failures = 0; ; failures += 1) {
      this.isWelcomed = false;
      const error = await this.attachOnce();
      if (this.isWelcomed) failures = 0;
      if (this.isStopped()) return;
      await this.waitAfter(error, failures);
      if (this.isStopped()) return;
    }
  }

  /** Ends the stream in peace, and opens no other. */
  async stop(): Promise<void> {
    this.stopped.abort();
    await this.attachment?.close();
  }

  private isStopped(): boolean {
    return this.stopped.signal.aborted;
  }

  /** One stream from Hello to its end. */
  private async attachOnce(): Promise<PlantroomError | undefined> {
    const { server } = this.options;
    const hello = await this.options.hello();
    if (this.isStopped()) return undefined;
    const client = new Client(server.address, credentialsOf(server), CHANNEL);
    try {
      const attachment: Attachment = new Attachment({
        client,
        metadata: metadataOf(server),
        hello,
        address: server.address,
        welcomeWithinMs: WELCOME_WITHIN_MS,
        onRoom: this.options.onRoom,
        onMessage: (message) => {
          if (message.$case === 'welcome') this.isWelcomed = true;
          this.options.onMessage(attachment, message);
        },
      });
      this.attachment = attachment;
      return await attachment.ended;
    } catch (error) {
      return errorOf(error);
    } finally {
      this.attachment = undefined;
      this.options.onDetached();
      client.close();
    }
  }

  private async waitAfter(error: PlantroomError | undefined, failures: number): Promise<void> {
    const { backoffMs, whenRefused, report } = this.options;
    const retryInMs = pauseAfter(error, givenBackoff(backoffMs, failures));
    if (error && isRefusal(error)) {
      report({ event: 'refused', error, retryInMs: whenRefused === 'stop' ? undefined : retryInMs });
      if (whenRefused === 'stop') throw error;
    } else report({ event: 'detached', error, retryInMs });
    await pause(retryInMs, this.stopped.signal);
  }
}

function metadataOf(server: ServerOptions): Metadata {
  const metadata = new Metadata();
  metadata.set('x-api-key', keyOf(server.apiKey));
  metadata.set('x-organization-id', server.organizationId);
  return metadata;
}

/** The function that gives the key may throw: it is asked again. Its message may hold anything, so it is not passed on. */
function errorOf(error: unknown): PlantroomError {
  if (error instanceof PlantroomError) return error;
  return new PlantroomError('the attachment could not be begun, for apiKey threw; see the cause', { status: 'UNAVAILABLE' }, { cause: error });
}
