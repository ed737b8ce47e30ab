import { checkLinkOptions, LONGEST_MS } from '../calls/checkOptions';
import { closeOf } from '../calls/closing';
import { isMisconfigured } from '../calls/hints';
import { PlantroomError } from '../plantroomError';
import type { LinkOptions } from './watchOptions';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** What a link ends with that another one may not: the server or what is between went away, or has no room now. */
const PASSING = new Set(['UNAVAILABLE', 'RESOURCE_EXHAUSTED', 'DEADLINE_EXCEEDED']);
/** What a proxy or the transport makes of a link that broke. From a Plantroom they come with a reason. */
const PASSING_WITHOUT_REASON = new Set(['INTERNAL', 'UNKNOWN']);

/**
 * Yields what the links bring, one after the other: `open` begins each by `service`, where the one before was lost. Throws PlantroomError for what another
 * attempt cannot mend. A link that worked and ends with `UNAUTHENTICATED` is opened once more, since the key may have been rotated; a first link that no
 * time makes right (no TLS, the wrong CA, another name in the certificate) is not opened again.
 */
export async function* overLostLinks<Response>(service: object, open: () => AsyncIterable<Response>, options: LinkOptions): AsyncGenerator<Response, never> {
  checkLinkOptions(options);
  const pauses = new Pauses(options);
  for (;;) {
    const opened = performance.now();
    const { lost, worked } = yield* untilLost(open());
    if (options.signal?.aborted) throw ended(options.signal);
    if (worked) pauses.worked(performance.now() - opened);
    const pauseMs = pauses.next(lost);
    if (pauseMs === undefined) throw lost;
    options.onLost?.(lost, pauseMs);
    await passed(pauseMs, [options.signal, closeOf(service)]);
    if (options.signal?.aborted) throw ended(options.signal);
  }
}

/** Waits so long, or until one of these aborts; the next link of a closed client fails with that. */
async function passed(ms: number, signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  if (signals.some((signal) => signal?.aborted)) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    for (const signal of signals) signal?.addEventListener('abort', end);
  });
}

/** Why a link ended, and whether the server said anything on it. */
interface Loss {
  readonly lost: PlantroomError;
  readonly worked: boolean;
}

/** Yields what one link brings; returns why it ended. Throws what another attempt cannot mend. */
async function* untilLost<Response>(responses: AsyncIterable<Response>): AsyncGenerator<Response, Loss> {
  let worked = false;
  try {
    for await (const response of responses) {
      worked = true;
      yield response;
    }
  } catch (error) {
    if (error instanceof PlantroomError && mayPass(error, worked)) return { lost: error, worked };
    throw error;
  }
  return { lost: new PlantroomError('the server ended the stream', { status: 'UNAVAILABLE' }), worked };
}

function mayPass({ status, reason }: PlantroomError, worked: boolean): boolean {
  return PASSING.has(status) || (PASSING_WITHOUT_REASON.has(status) && reason === '') || (worked && status === 'UNAUTHENTICATED');
}

/** How long is waited before each attempt. */
class Pauses {
  private readonly first: number;
  private readonly longest: number;
  private attempts = 0;
  private hasWorked = false;
  private awaySince = performance.now();

  constructor(private readonly options: LinkOptions) {
    this.longest = options.longestPauseMs ?? LONGEST_PAUSE_MS;
    this.first = Math.min(options.firstPauseMs ?? FIRST_PAUSE_MS, this.longest);
  }

  /** The server answered on a link, which is lost now. One that broke soon after it began says nothing good about the next. */
  worked(livedMs: number): void {
    this.hasWorked = true;
    this.awaySince = performance.now();
    if (livedMs >= this.longest) this.attempts = 0;
  }

  /** Milliseconds until the next attempt; undefined: the server has been away for too long, or no time makes it right. */
  next(lost: PlantroomError): number | undefined {
    const { retryAfterMs = 0 } = lost;
    if (!this.hasWorked && isMisconfigured(lost)) return undefined;
    const { giveUpAfterMs = Number.POSITIVE_INFINITY } = this.options;
    if (performance.now() - this.awaySince >= giveUpAfterMs) return undefined;
    const pause = Math.min(this.longest, this.first * 2 ** this.attempts);
    this.attempts += 1;
    return Math.min(LONGEST_MS, Math.max(retryAfterMs, pause * (0.5 + Math.random() / 2)));
  }
}

/** The error of a watch that its caller ended. */
function ended(signal: AbortSignal | undefined): PlantroomError {
  return new PlantroomError('the watch was ended by its signal', { status: 'CANCELLED' }, { cause: signal?.reason });
}
