import type { PlantroomError } from '../plantroomError';

/** What a watch may have of its own. */
export interface LinkOptions {
  /** Ends the watch; it fails with `CANCELLED`. */
  readonly signal?: AbortSignal;
  /** Before the link is opened again, in whole milliseconds; each further pause is twice as long, by up to half shorter at random. 500 unless said. */
  readonly firstPauseMs?: number;
  /** The longest pause, in milliseconds. 30,000 unless said. */
  readonly longestPauseMs?: number;
  /** How long the server may be away, in milliseconds, before the watch fails with the error of the last attempt. Unless said it goes on trying for ever: give onLost to hear of it. */
  readonly giveUpAfterMs?: number;
  /** Told of each lost link, and how long is waited before the next attempt, in milliseconds. */
  readonly onLost?: (error: PlantroomError, pauseMs: number) => void;
}

/** What a watch may have that can be resumed. */
export interface WatchOptions extends LinkOptions {
  /**
   * Told where to resume once everything before that was handled: when the loop asks for the next item. It is waited for. Keep the token, and give the
   * newest one as `resumeToken` of the request after a restart of your program: what came meanwhile is not missed, and the last items may come once more.
   */
  readonly onResumeToken?: (resumeToken: string) => void | Promise<void>;
}
