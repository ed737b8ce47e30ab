import type { EventEmitter } from 'node:events';
import type { Http2Session, ServerHttp2Stream } from 'node:http2';

/**
 * The bounds of the number of calls that start in one turn of the event loop. A larger batch is more efficient, because
 * its responses are written together.
 */
const MAX_BATCH_SIZE = 64;
const MIN_BATCH_SIZE = 8;
/** After a longer turn, the batch size is halved. */
const MAX_TURN_MS = 8;

type StreamListener = (stream: ServerHttp2Stream, ...rest: readonly unknown[]) => void;
/** Starts one call. Returns false if the client has already reset it. */
type Start = () => boolean;

/**
 * Starts a batch of new HTTP/2 calls in each turn of the event loop. A call that is reset early never starts. Every
 * other call is one of the connection with the fewest waiting calls, and the others are taken from all connections in
 * turn. So connections that open hundreds of calls at once do not delay other connections.
 */
export class StreamScheduler {
  private readonly startsBySession = new Map<Http2Session | undefined, Start[]>();
  private isScheduled = false;
  private batchSize = MAX_BATCH_SIZE;

  /** Replaces the stream listeners of an HTTP/2 server by the scheduler, which calls them later. */
  watch(server: EventEmitter): void {
    const listeners = server.listeners('stream') as StreamListener[];
    server.removeAllListeners('stream');
    server.on('stream', (stream: ServerHttp2Stream, ...rest: readonly unknown[]) => {
      stream.once('error', ignore); // without a listener, an error before the start of the call would crash the process
      this.enqueue(stream.session, () => {
        if (stream.destroyed || stream.closed) return false;
        for (const listener of listeners) listener(stream, ...rest);
        if (stream.readableEnded) stream.emit('end'); // an empty request ended before the listeners were attached
        return true;
      });
    });
  }

  /** Queues the start of a call behind the earlier calls of the same HTTP/2 session. */
  private enqueue(session: Http2Session | undefined, start: Start): void {
    const starts = this.startsBySession.get(session);
    if (starts) starts.push(start);
    else this.startsBySession.set(session, [start]);
    this.schedule();
  }

  /**
   * Requests a batch in the next turn of the event loop, unless one is requested already. `turnStartedAt`: when the
   * present turn started the calls of the batch before, if it did.
   */
  private schedule(turnStartedAt = performance.now()): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(() => this.startBatch(performance.now() - turnStartedAt));
  }

  /**
   * Starts one batch of calls. The batch size is halved after a turn that took too long, so that other work of the
   * server is not delayed, and doubled otherwise. `turnMs`: the duration of the previous turn of the event loop,
   * including the calls that it started.
   */
  private startBatch(turnMs: number): void {
    this.isScheduled = false;
    const startedAt = performance.now();
    const nextSize = turnMs > MAX_TURN_MS ? this.batchSize / 2 : this.batchSize * 2;
    this.batchSize = Math.min(MAX_BATCH_SIZE, Math.max(MIN_BATCH_SIZE, nextSize));
    let startedCount = 0;
    let isFirstsTurn = true;
    while (startedCount < this.batchSize && this.startsBySession.size > 0) {
      const isStarted = this.startNext(isFirstsTurn ? this.findFirst() : this.findLeastWaiting());
      if (isStarted) startedCount += 1; // calls that were reset cost almost nothing
      isFirstsTurn = !isFirstsTurn || !isStarted; // findLeastWaiting reads all sessions, so not for each reset call
    }
    if (this.startsBySession.size > 0) this.schedule(startedAt);
  }

  /**
   * Starts the first waiting call of a session that was not reset, and moves the session to the end of the queue.
   * Returns whether there was such a call.
   */
  private startNext(session: Http2Session | undefined): boolean {
    const starts = this.startsBySession.get(session) ?? [];
    this.startsBySession.delete(session);
    let isStarted = false;
    while (!isStarted && starts.length > 0) isStarted = starts.shift()?.() === true;
    if (starts.length > 0) this.startsBySession.set(session, starts);
    return isStarted;
  }

  /** Returns the session whose turn it is. */
  private findFirst(): Http2Session | undefined {
    const [first] = this.startsBySession.keys();
    return first;
  }

  /** Returns the session with the fewest waiting calls. */
  private findLeastWaiting(): Http2Session | undefined {
    let found: Http2Session | undefined;
    let fewest = Infinity;
    for (const [session, { length }] of this.startsBySession) {
      if (length < fewest) [found, fewest] = [session, length];
    }
    return found;
  }
}

function ignore(): void {}
