import type { ServiceError } from '@grpc/grpc-js';
import { neverLeft, wasCut } from './brokenLinks';
import { patience, pauseMs, type RetryPlan } from './repeatable';

/**
 * How a call meets a server that is away. Each waits for the connection as long as the pauses of the plan last. `repeated`: what left is made again by
 * gRPC's service config, and from here where the connection was cut. `once`: what never left may go later. `streamed`: its requests cannot be had again,
 * and it may take as long as it takes.
 */
export type CallWay = 'repeated' | 'once' | 'streamed';

/** The attempts of one call. Times are by performance.now(): the time of day may be set. */
export class Attempts {
  /** When the call ends in any case. */
  readonly ends: number;
  private cuts = 0;
  private patientUntil: number;

  /** `longestMs`: how long the call may take in all. */
  constructor(
    private readonly way: CallWay,
    private readonly plan: RetryPlan,
    longestMs: number,
  ) {
    this.ends = performance.now() + longestMs;
    this.patientUntil = performance.now() + patience(plan);
  }

  /** Until when a connection is waited for that cannot be had. */
  get until(): number {
    return this.patientUntil;
  }

  /** How long to pause before the call is made again, in milliseconds; undefined: this error is its end. */
  pauseAfter(error: ServiceError): number | undefined {
    if (this.way === 'once') return neverLeft(error) && performance.now() < this.until ? 0 : undefined;
    if (this.way !== 'repeated' || !wasCut(error) || this.cuts >= this.plan.attempts - 1) return undefined;
    const pause = pauseMs(this.plan, this.cuts);
    this.cuts += 1;
    this.patientUntil = performance.now() + pause + patience(this.plan);
    return pause;
  }
}
