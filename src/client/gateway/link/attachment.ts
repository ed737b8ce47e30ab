import type { Client, ClientDuplexStream, Metadata, ServiceError } from '@grpc/grpc-js';
import { AttachRequest, AttachResponse, type Hello } from '../../gen/gateway/v1/gateway_service';
import { PlantroomError } from '../../plantroomError';
import { buildUplinkFrame } from './uplinkFrame';

type GatewayMessage = NonNullable<AttachRequest['message']>;
type ServerMessage = NonNullable<AttachResponse['message']>;

/** The options of one stream. */
export interface AttachmentOptions {
  readonly client: Client;
  readonly metadata: Metadata;
  readonly hello: Hello;
  /** `host:port`, for error messages. */
  readonly address: string;
  /** How long the server may take to send its welcome, in milliseconds. */
  readonly welcomeTimeoutMs: number;
  readonly onMessage: (message: ServerMessage) => void;
  /** Called when uplinks can be sent again. */
  readonly onWritable: () => void;
}

const PATH = '/gateway.v1.GatewayService/Attach';
// The maximum number of messages that wait for the network: enough to keep it busy, few enough to repeat after an
// interruption.
const MAX_PENDING_MESSAGES = 256;
// How long the server may take to end the stream after the gateway closed its side.
const CLOSE_TIMEOUT_MS = 2000;

/** One stream, from Hello to its end. */
export class Attachment {
  /** Resolves with the error that ended the stream; undefined if it ended normally. Never rejects. */
  readonly ended: Promise<PlantroomError | undefined>;
  private readonly call: ClientDuplexStream<Buffer, AttachResponse>;
  private error: PlantroomError | undefined;
  private hasEnded = false;
  private isClosing = false;

  constructor(private readonly options: AttachmentOptions) {
    this.call = options.client.makeBidiStreamRequest(
      PATH,
      passThrough,
      (bytes) => AttachResponse.decode(bytes),
      options.metadata,
    );
    const welcomeTimer = setTimeout(() => this.cancel(welcomeMissing(options)), options.welcomeTimeoutMs);
    this.call.on('data', ({ message }: AttachResponse) => {
      if (message?.$case === 'welcome') clearTimeout(welcomeTimer);
      if (message && !this.hasEnded) options.onMessage(message); // Undefined: a message type of a newer server.
    });
    this.call.on('drain', options.onWritable);
    this.call.on('error', (error: ServiceError) => this.handleError(error));
    this.ended = new Promise((resolve) => {
      this.call.on('status', () => {
        clearTimeout(welcomeTimer);
        // Messages that arrived before the end are still delivered.
        setImmediate(() => {
          this.hasEnded = true;
          resolve(this.error);
        });
      });
    });
    this.send({ $case: 'hello', value: options.hello });
  }

  /** Whether an uplink may be sent now. If not, `onWritable` is called later. */
  get isWritable(): boolean {
    return this.call.writable && this.call.writableLength < MAX_PENDING_MESSAGES;
  }

  /** Sends an encoded `Uplink` message. */
  sendUplink(message: Uint8Array): void {
    if (this.call.writable) this.call.write(buildUplinkFrame(message));
  }

  /** Sends a message. If the stream has ended, the next Hello contains the information. */
  send(message: GatewayMessage): void {
    if (this.call.writable) this.call.write(toBuffer(AttachRequest.encode({ message }).finish()));
  }

  /** Closes the sending side and waits for the server to end the stream; cancels the stream after 2 s. */
  async close(): Promise<void> {
    this.isClosing = true;
    const timer = setTimeout(() => this.call.cancel(), CLOSE_TIMEOUT_MS);
    this.call.end();
    await this.ended;
    clearTimeout(timer);
  }

  /** Cancels the stream with this error. */
  cancel(error: PlantroomError): void {
    this.error ??= error;
    this.call.cancel();
  }

  /** Records the error that ended the stream, unless the gateway itself closed it. */
  private handleError(error: ServiceError): void {
    if (!this.isClosing) this.error ??= PlantroomError.from(error, this.options.address);
  }
}

/** Creates the error for a stream on which the server did not send its welcome in time. */
function welcomeMissing({ welcomeTimeoutMs }: AttachmentOptions): PlantroomError {
  return new PlantroomError(`the server did not send its welcome within ${welcomeTimeoutMs / 1000} s`, {
    status: 'DEADLINE_EXCEEDED',
    reason: 'welcome_missing',
  });
}

const passThrough = (bytes: Buffer): Buffer => bytes;

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
