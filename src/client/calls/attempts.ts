import type { ServiceError } from '@grpc/grpc-js';
import { wasNotSent, wasInterrupted } from './interruptedCalls';
import { getTotalPauseMs, getPauseMs, type RetryPlan } from './repeatable';

/**
 * How a call is retried while the server is unreachable. Every call first waits for the connection for as long as the
 * pauses of the plan last together. `repeated`: safe to repeat; gRPC's service config retries it, and this client
 * retries it after an interrupted connection. `once`: retried only if it was never sent. `streamed`: a stream of
 * requests; never retried, because its requests cannot be read again, and without a default deadline.
 */
export type RetryMode = 'repeated' | 'once' | 'streamed';

/** The attempts of one call. Times are values of performance.now(), which changes of the system clock do not affect. */
export class Attempts {
  /** The deadline of the call. */
  readonly deadline: number;
  private interruptions = 0;
  private connectUntilMs: number;

  /** `maxMs`: the maximum duration of the call with all attempts. */
  constructor(
    private readonly mode: RetryMode,
    private readonly plan: RetryPlan,
    maxMs: number,
  ) {
    this.deadline = performance.now() + maxMs;
    this.connectUntilMs = performance.now() + getTotalPauseMs(plan);
  }

  /** The time until which the call waits for an unreachable server. */
  get connectUntil(): number {
    return this.connectUntilMs;
  }

  /**
   * Returns the pause before the next attempt in milliseconds; undefined if this error is final. A call that may be
   * sent only once is only tried again (without a pause) if it was not sent. A repeatable call that was interrupted
   * extends the time that the call waits for an unreachable server.
   */
  takePauseAfter(error: ServiceError): number | undefined {
    if (this.mode === 'once') {
      const canConnect = performance.now() < this.connectUntil;
      return wasNotSent(error) && canConnect ? 0 : undefined;
    }
    const hasAttemptsLeft = this.interruptions < this.plan.attempts - 1;
    if (this.mode !== 'repeated' || !wasInterrupted(error) || !hasAttemptsLeft) return undefined;
    const pauseMs = getPauseMs(this.plan, this.interruptions);
    this.interruptions += 1;
    this.connectUntilMs = performance.now() + pauseMs + getTotalPauseMs(this.plan);
    return pauseMs;
  }
}
