import { checkLinkOptions } from '../calls/checkOptions';
import { findCloseSignal } from '../calls/closeSignals';
import { isConfigurationError } from '../calls/hints';
import { delay, MAX_TIMER_MS } from '../delay';
import { PlantroomError } from '../plantroomError';
import type { LinkOptions } from './watchOptions';

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;
/** Statuses after which a new stream may succeed: the server or a proxy is unavailable or overloaded. */
const TRANSIENT_STATUSES = new Set(['UNAVAILABLE', 'RESOURCE_EXHAUSTED', 'DEADLINE_EXCEEDED']);
/** Statuses of an interrupted connection. If the server itself sets them, they have a reason. */
const TRANSIENT_STATUSES_WITHOUT_REASON = new Set(['INTERNAL', 'UNKNOWN']);

/**
 * Yields the responses of a stream and reopens it with `open` when it is lost. `service`: the service of the client
 * that `open` calls. Throws PlantroomError for errors that a retry cannot fix. A stream that worked and then fails with
 * `UNAUTHENTICATED` is reopened once, because the key may have been rotated. A first stream that fails because of a
 * configuration error (no TLS, wrong CA, another name in the certificate) is not reopened.
 */
export async function* withReconnect<Response>(
  service: object,
  open: () => AsyncIterable<Response>,
  options: LinkOptions,
): AsyncGenerator<Response, never> {
  checkLinkOptions(options);
  const pauses = new ReconnectPauses(options);
  for (;;) {
    const openedAt = performance.now();
    const { error, hasWorked } = yield* readUntilLost(open());
    if (options.signal?.aborted) throw watchCancelled(options.signal);
    if (hasWorked) pauses.noteWorked(performance.now() - openedAt);
    const pauseMs = pauses.takeNext(error);
    if (pauseMs === undefined) throw error;
    options.onLost?.(error, pauseMs);
    // If the client was closed, opening the next stream fails.
    const signals = [options.signal, findCloseSignal(service)].filter((signal) => signal !== undefined);
    await delay(pauseMs, AbortSignal.any(signals));
    if (options.signal?.aborted) throw watchCancelled(options.signal);
  }
}

/** The reason why a stream ended, and whether the server sent anything on it. */
interface StreamEnd {
  readonly error: PlantroomError;
  readonly hasWorked: boolean;
}

/** Yields the responses of one stream and returns why it ended. Throws errors that a retry cannot fix. */
async function* readUntilLost<Response>(responses: AsyncIterable<Response>): AsyncGenerator<Response, StreamEnd> {
  let hasWorked = false;
  try {
    for await (const response of responses) {
      hasWorked = true;
      yield response;
    }
  } catch (error) {
    if (error instanceof PlantroomError && isTransient(error, hasWorked)) return { error, hasWorked };
    throw error;
  }
  return { error: new PlantroomError('the server ended the stream', { status: 'UNAVAILABLE' }), hasWorked };
}

/**
 * Whether a new stream may succeed after this error. `UNAUTHENTICATED` counts only for a stream that worked, because
 * its key may have been rotated.
 */
function isTransient({ status, reason }: PlantroomError, hasWorked: boolean): boolean {
  return (
    TRANSIENT_STATUSES.has(status) ||
    (TRANSIENT_STATUSES_WITHOUT_REASON.has(status) && reason === '') ||
    (hasWorked && status === 'UNAUTHENTICATED')
  );
}

/** Computes the pauses before the attempts to reopen a stream. */
class ReconnectPauses {
  private readonly firstMs: number;
  private readonly maxMs: number;
  private attempts = 0;
  private hasWorked = false;
  private unreachableSince = performance.now();

  constructor(private readonly options: LinkOptions) {
    this.maxMs = options.longestPauseMs ?? MAX_PAUSE_MS;
    this.firstMs = Math.min(options.firstPauseMs ?? FIRST_PAUSE_MS, this.maxMs);
  }

  /**
   * Notes that a stream worked before it was lost. The pause only restarts at its minimum if the stream lived at least
   * as long as the maximum pause.
   */
  noteWorked(lifetimeMs: number): void {
    this.hasWorked = true;
    this.unreachableSince = performance.now();
    if (lifetimeMs >= this.maxMs) this.attempts = 0;
  }

  /**
   * Returns the milliseconds until the next attempt; undefined if the server was unreachable for too long or a retry
   * cannot help.
   */
  takeNext(error: PlantroomError): number | undefined {
    const { retryAfterMs = 0 } = error;
    if (!this.hasWorked && isConfigurationError(error)) return undefined;
    const { giveUpAfterMs = Number.POSITIVE_INFINITY } = this.options;
    if (performance.now() - this.unreachableSince >= giveUpAfterMs) return undefined;
    const pauseMs = Math.min(this.maxMs, this.firstMs * 2 ** this.attempts);
    this.attempts += 1;
    // Shortened at random by up to half, so that many clients do not reconnect at the same time.
    const variedPauseMs = pauseMs * (0.5 + Math.random() / 2);
    return Math.min(MAX_TIMER_MS, Math.max(retryAfterMs, variedPauseMs));
  }
}

/** Creates the error for a watch that its caller cancelled. */
function watchCancelled(signal: AbortSignal | undefined): PlantroomError {
  return new PlantroomError(
    'the watch was cancelled by its signal',
    { status: 'CANCELLED' },
    { cause: signal?.reason },
  );
}
