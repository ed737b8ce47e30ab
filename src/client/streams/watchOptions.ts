import type { PlantroomError } from '../plantroomError';

/** The options of a watch. */
export interface LinkOptions {
  /** Cancels the watch, which then fails with `CANCELLED`. */
  readonly signal?: AbortSignal;
  /**
   * The pause before the stream is reopened, in whole milliseconds, 1 to 2,147,483,647. Each further pause is twice as
   * long; each is shortened at random by up to half. Default: 500.
   */
  readonly firstPauseMs?: number;
  /** The maximum pause, in whole milliseconds, 1 to 2,147,483,647. Default: 30,000. */
  readonly longestPauseMs?: number;
  /**
   * How long the server may be unreachable, in milliseconds, 0 or more, before the watch fails with the error of the
   * last attempt. Default: it retries indefinitely; set onLost to be informed.
   */
  readonly giveUpAfterMs?: number;
  /** Called when a stream is lost, with the error and the pause before the next attempt in milliseconds. */
  readonly onLost?: (error: PlantroomError, pauseMs: number) => void;
}

/** The options of a watch that can be resumed. */
export interface WatchOptions extends LinkOptions {
  /**
   * Called with the token to resume from, after everything before it was processed, that is, when the loop requests the
   * next item. The watch awaits it. Store the newest token, and set it as `resumeToken` of the request after a restart
   * of your program: nothing is missed, and the last items may be repeated.
   */
  readonly onResumeToken?: (resumeToken: string) => void | Promise<void>;
}
