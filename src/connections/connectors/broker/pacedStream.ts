import { Duplex, finished } from 'node:stream';
import type { MqttPacketSizeScanner } from './mqttPacketSizeScanner';

/** The MQTT library and this server need 10 to 60 microseconds per packet of any type. */
const MAX_PACKETS_PER_PIECE = 200;
const EMPTY_CHUNK = Buffer.alloc(0);

/**
 * The stream between the network connection and the MQTT library. It passes data on in pieces of at most 200 packets,
 * one per turn of the event loop, so that a burst from the broker does not block everything else. While it is paused by
 * `stopReading`, or the library is busy, nothing is read from the network connection, so the broker has to wait: at
 * most one chunk is buffered here.
 */
export class PacedStream extends Duplex {
  private chunk: Buffer = EMPTY_CHUNK;
  /** Whether the library waits for data. */
  private isDataRequested = false;
  private isReadingPaused = false;
  private isDiscarding = false;
  private hasEnded = false;
  private nextTurn: NodeJS.Immediate | undefined;

  /** `inner`: the network connection. `scanner`: scans each piece before the library receives it. */
  constructor(
    private readonly inner: Duplex,
    private readonly scanner: MqttPacketSizeScanner,
  ) {
    super({ allowHalfOpen: false });
    inner.on('data', (chunk: Buffer) => this.handleData(chunk));
    inner.on('end', () => {
      this.hasEnded = true;
      this.schedule();
    });
    inner.on('error', (error) => this.destroy(error));
    inner.on('close', () => {
      // After a regular end, the buffered data is passed on first, unless reading is paused.
      if (!this.hasEnded || this.isReadingPaused) this.destroy();
    });
  }

  /** Pauses the stream until `resumeReading`. */
  stopReading(): void {
    this.isReadingPaused = true;
    if (this.inner.destroyed) this.destroy(); // nothing can be acknowledged after the connection is closed
  }

  /** Continues after `stopReading`. */
  resumeReading(): void {
    this.isReadingPaused = false;
    this.schedule();
  }

  /**
   * Discards all further data but continues reading, so that the end of the network connection is noticed immediately.
   */
  discard(): void {
    this.isDiscarding = true;
    this.chunk = EMPTY_CHUNK;
    this.inner.resume();
    this.resumeReading();
  }

  /** Called by the library when it wants data. */
  override _read(): void {
    this.isDataRequested = true;
    this.schedule();
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.writeToInner(bytes, done);
  }

  /** Combines everything that was written in one turn of the event loop into one write. */
  override _writev(pieces: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.writeToInner(Buffer.concat(pieces.map(({ chunk }) => chunk)), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    finished(this.inner, { readable: false }, () => done()); // also called if the network connection is already closed
    this.inner.end();
  }

  /** Closes the network connection too. */
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearImmediate(this.nextTurn);
    this.chunk = EMPTY_CHUNK;
    this.inner.destroy();
    done(error);
  }

  /**
   * Writes to the network connection. Calls `done` when it accepts more data, or is closed: a write that never ends
   * would keep this stream open after the end of the connection.
   */
  private writeToInner(bytes: Buffer, done: () => void): void {
    const { inner } = this;
    if (!inner.writable || inner.write(bytes)) {
      done();
      return;
    }
    const finish = (): void => {
      inner.off('drain', finish).off('close', finish);
      done();
    };
    inner.once('drain', finish).once('close', finish);
  }

  /** Buffers a chunk from the network connection, and reads no more until it is passed on. */
  private handleData(chunk: Buffer): void {
    if (this.isDiscarding) return;
    this.inner.pause();
    // A paused connection may still emit what it had read.
    this.chunk = this.chunk.length === 0 ? chunk : Buffer.concat([this.chunk, chunk]);
    this.schedule();
  }

  /** Passes on the next piece in the next turn of the event loop. */
  private schedule(): void {
    this.nextTurn ??= setImmediate(() => {
      this.nextTurn = undefined;
      this.pushNext();
    });
  }

  /** Passes on the next piece, if the library wants one; without buffered data, reads more, or ends the stream. */
  private pushNext(): void {
    if (this.destroyed || this.isReadingPaused || !this.isDataRequested) return;
    if (this.chunk.length > 0) {
      this.pushPiece();
    } else if (this.hasEnded) {
      this.isDataRequested = false;
      this.push(null); // ends the stream
    } else {
      this.inner.resume();
    }
  }

  /** Passes on at most MAX_PACKETS_PER_PIECE packets of the buffered chunk. */
  private pushPiece(): void {
    const length = this.scanner.scan(this.chunk, MAX_PACKETS_PER_PIECE);
    const piece = this.chunk.subarray(0, length);
    this.chunk = this.chunk.subarray(length);
    this.isDataRequested = false;
    if (!this.destroyed) this.push(piece); // the scanner destroys the stream if a packet is too large
  }
}
