import type { Client, ClientDuplexStream, Metadata, ServiceError } from '@grpc/grpc-js';
import { AttachRequest, AttachResponse, type Hello } from '../../gen/gateway/v1/gateway_service';
import { PlantroomError } from '../../plantroomError';
import { uplinkFrame } from './uplinkFrame';

type Sent = NonNullable<AttachRequest['message']>;
type Came = NonNullable<AttachResponse['message']>;

/** What one stream is opened with. */
export interface AttachmentOptions {
  readonly client: Client;
  readonly metadata: Metadata;
  readonly hello: Hello;
  /** `host:port`, to name it in errors. */
  readonly address: string;
  /** How long the server may take to welcome, in milliseconds. */
  readonly welcomeWithinMs: number;
  readonly onMessage: (message: Came) => void;
  /** There is room for uplinks again. */
  readonly onRoom: () => void;
}

const PATH = '/gateway.v1.GatewayService/Attach';
// So many messages may wait for the network to take them: enough to keep it busy, little to be sent twice after a cut.
const MOST_WAITING = 256;
// A server that was told that nothing more comes has this long to end the stream.
const CLOSE_WITHIN_MS = 2000;

/** One stream, from Hello to its end. */
export class Attachment {
  /** How it ended; undefined: in peace. Never rejects. */
  readonly ended: Promise<PlantroomError | undefined>;
  private readonly call: ClientDuplexStream<Buffer, AttachResponse>;
  private error: PlantroomError | undefined;
  private isOver = false;
  private isClosing = false;

  constructor(private readonly options: AttachmentOptions) {
    this.call = options.client.makeBidiStreamRequest(PATH, same, (bytes) => AttachResponse.decode(bytes), options.metadata);
    const patience = setTimeout(() => this.cut(neverWelcomed(options)), options.welcomeWithinMs);
    this.call.on('data', ({ message }: AttachResponse) => {
      if (message?.$case === 'welcome') clearTimeout(patience);
      if (message && !this.isOver) options.onMessage(message); // none: a newer server says what this one does not know
    });
    this.call.on('drain', options.onRoom);
    this.call.on('error', (error: ServiceError) => this.failed(error));
    this.ended = new Promise((resolve) => {
      this.call.on('status', () => {
        clearTimeout(patience);
        // What came before the end is still handed over.
        setImmediate(() => {
          this.isOver = true;
          resolve(this.error);
        });
      });
    });
    this.send({ $case: 'hello', value: options.hello });
  }

  /** Whether an uplink may be sent now; `onRoom` says when again. */
  get hasRoom(): boolean {
    return this.call.writable && this.call.writableLength < MOST_WAITING;
  }

  /** Sends an `Uplink` message. */
  sendUplink(message: Uint8Array): void {
    if (this.call.writable) this.call.write(uplinkFrame(message));
  }

  /** What cannot leave any more is told in the next Hello. */
  send(message: Sent): void {
    if (this.call.writable) this.call.write(bufferOf(AttachRequest.encode({ message }).finish()));
  }

  /** Says that nothing more comes, and waits for the server to end the stream; cuts it if that takes longer than 2 s. */
  async close(): Promise<void> {
    this.isClosing = true;
    const timer = setTimeout(() => this.call.cancel(), CLOSE_WITHIN_MS);
    this.call.end();
    await this.ended;
    clearTimeout(timer);
  }

  /** Ends it at once. */
  cut(error: PlantroomError): void {
    this.error ??= error;
    this.call.cancel();
  }

  private failed(error: ServiceError): void {
    if (!this.isClosing) this.error ??= PlantroomError.from(error, this.options.address);
  }
}

function neverWelcomed({ welcomeWithinMs }: AttachmentOptions): PlantroomError {
  return new PlantroomError(`the server did not welcome the gateway within ${welcomeWithinMs / 1000} s`, { status: 'DEADLINE_EXCEEDED', reason: 'welcome_missing' });
}

const same = (bytes: Buffer): Buffer => bytes;

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
