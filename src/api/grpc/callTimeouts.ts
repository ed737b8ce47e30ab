import { constants, type ServerHttp2Stream } from 'node:http2';
import { requestTimeout } from '../pipeline/activeCall';
import type { ServerCall } from '../pipeline/serverCall';

/** Time limits of calls, in milliseconds; GrpcLimits explains the fields. */
interface CallTimeoutLimits {
  readonly requestMs: number;
  readonly checkMs: number;
  readonly lingerMs: number;
}

/**
 * Fails calls whose request does not arrive in time, and closes streams whose clients keep sending after the response.
 */
export class CallTimeouts {
  /** Calls that wait for their request, with the start time of the wait, the oldest first. */
  private readonly waitStartByCall = new Map<ServerCall, number>();
  private readonly checkTimer: NodeJS.Timeout;

  constructor(private readonly limits: CallTimeoutLimits) {
    this.checkTimer = setInterval(() => this.failLateCalls(), limits.checkMs).unref();
  }

  /** Starts the time limit for receiving the request of a call. */
  start(call: ServerCall): void {
    this.waitStartByCall.set(call, performance.now());
  }

  /** Stops the time limit of a call, because its request is complete or the call has ended. */
  clear(call: ServerCall): void {
    this.waitStartByCall.delete(call);
  }

  /**
   * Closes the HTTP/2 stream of an ended call after `lingerMs`, unless the client closes it before or has sent
   * everything. Until then, a client that is still sending can finish, and read the response.
   */
  closeLater(stream: ServerHttp2Stream): void {
    if (stream.closed || stream.readableEnded) return;
    const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), this.limits.lingerMs).unref();
    stream.once('close', () => clearTimeout(timer));
  }

  /** Stops the periodic checks. */
  stop(): void {
    clearInterval(this.checkTimer);
  }

  /**
   * Fails the calls whose request has not arrived in time. The map is ordered by start, so the loop stops at the first
   * call that still has time.
   */
  private failLateCalls(): void {
    const latestAllowedStart = performance.now() - this.limits.requestMs;
    for (const [call, startedAt] of this.waitStartByCall) {
      if (startedAt > latestAllowedStart) return;
      this.waitStartByCall.delete(call);
      call.fail(requestTimeout());
    }
  }
}
