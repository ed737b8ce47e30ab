import type { Readable } from 'node:stream';
import { DomainError } from '../../kernel/errors';
import { callerGone } from '../openCall';

/** The largest body of an upload, in bytes: a picture of 10 MiB, and what a form puts around it. What is in it may be at most, its handler says. */
export const LARGEST_UPLOAD = 10 * 1024 * 1024 + 64 * 1024;

interface Wanted {
  readonly resolve: (piece: Buffer | undefined) => void;
  readonly reject: (reason: Error) => void;
}

/** The bytes of a request, a piece at a time: nothing is read before it is asked for. */
export class UploadBody {
  private readonly pieces: Buffer[] = [];
  private wanted: Wanted | undefined;
  private end: 'reached' | Error | undefined;

  constructor(private readonly raw: Readable) {
    raw.pause();
    raw.on('data', this.onData).once('end', this.onEnd).once('error', this.onBreak).once('close', this.onBreak);
  }

  /** The next piece; undefined at the end. Rejects when the caller went away. */
  async next(): Promise<Buffer | undefined> {
    const piece = this.pieces.shift();
    if (piece) return piece;
    if (this.end === 'reached') return undefined;
    if (this.end) throw this.end;
    return await new Promise((resolve, reject) => {
      this.wanted = { resolve, reject };
      this.raw.resume();
    });
  }

  /** What comes from here on is forgotten. */
  forget(): void {
    this.raw.off('data', this.onData).resume();
  }

  private readonly onData = (piece: Buffer): void => {
    this.raw.pause();
    const { wanted } = this;
    this.wanted = undefined;
    if (wanted) wanted.resolve(piece);
    else this.pieces.push(piece);
  };

  private readonly onEnd = (): void => {
    this.end ??= 'reached';
    this.wanted?.resolve(undefined);
  };

  private readonly onBreak = (): void => {
    this.end ??= callerGone();
    if (this.end !== 'reached') this.wanted?.reject(this.end);
  };
}

/** More bytes than any upload has. */
export function tooLarge(): DomainError {
  return new DomainError('too_large', 'message_too_large', `the body is too large; at most ${LARGEST_UPLOAD} bytes are allowed`);
}
