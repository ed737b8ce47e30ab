import type { Readable } from 'node:stream';
import { DomainError } from '../../kernel/errors';
import { clientCancelled } from '../pipeline/activeCall';

/**
 * The maximum size of an upload body in bytes: an image of 10 MiB and the overhead of a form. The handler limits the
 * size of the file itself.
 */
export const MAX_UPLOAD_BYTES = 10 * 1024 * 1024 + 64 * 1024;

interface PendingRead {
  readonly resolve: (piece: Buffer | undefined) => void;
  readonly reject: (reason: Error) => void;
}

/** Reads the bytes of a request piece by piece, on demand. */
export class UploadBody {
  private readonly pieces: Buffer[] = [];
  private pendingRead: PendingRead | undefined;
  private endState: 'reached' | Error | undefined;

  constructor(private readonly raw: Readable) {
    raw.pause();
    raw.on('data', this.onData).once('end', this.onEnd).once('error', this.onAbort).once('close', this.onAbort);
  }

  /** Returns the next piece; undefined at the end. Rejects if the client disconnected. */
  async next(): Promise<Buffer | undefined> {
    const piece = this.pieces.shift();
    if (piece) return piece;
    if (this.endState === 'reached') return undefined;
    if (this.endState) throw this.endState;
    return await new Promise((resolve, reject) => {
      this.pendingRead = { resolve, reject };
      this.raw.resume();
    });
  }

  /** Discards the rest of the body. */
  discard(): void {
    this.raw.off('data', this.onData).resume();
  }

  /**
   * Passes a piece to the pending read, and stops reading until the next one. Keeps a piece for which no read is
   * pending.
   */
  private readonly onData = (piece: Buffer): void => {
    this.raw.pause();
    const { pendingRead } = this;
    this.pendingRead = undefined;
    if (pendingRead) pendingRead.resolve(piece);
    else this.pieces.push(piece);
  };

  private readonly onEnd = (): void => {
    this.endState ??= 'reached';
    this.pendingRead?.resolve(undefined);
  };

  /** Called for an error and for every close; a close after the end of the body is normal. */
  private readonly onAbort = (): void => {
    this.endState ??= clientCancelled();
    if (this.endState !== 'reached') this.pendingRead?.reject(this.endState);
  };
}

/** Creates the error for an upload body that exceeds MAX_UPLOAD_BYTES. */
export function uploadTooLarge(): DomainError {
  return new DomainError(
    'too_large',
    'message_too_large',
    `the body is too large: at most ${MAX_UPLOAD_BYTES} bytes are allowed`,
  );
}
