import type { Logger } from '../../../kernel/logger';
import { truncate } from '../../../kernel/truncate';

/** The count of one reason, with the first message as an example. */
interface LoggedRejections {
  count: number;
  readonly topic: string;
  readonly reason: string;
}

const LOG_INTERVAL_MS = 10_000;
const MAX_REASONS = 5;
const MAX_TEXT_LENGTH = 255;

/**
 * Counts messages that can never be stored. The first one is logged immediately; after that, one line every 10 seconds
 * contains the count of each reason with an example topic.
 */
export class RejectionLog {
  /** The total number since the connection was started. */
  count = 0;
  /** Rejections that are not logged yet, by the code before the colon of the reason. */
  private readonly pendingByCode = new Map<string, LoggedRejections>();
  /** The number of rejections with further reasons since the last log line. */
  private otherCount = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly log: Logger,
    private readonly fields: object,
    private readonly event = 'mqtt.uplink_rejected',
    /** The interval between two log lines, milliseconds. */
    private readonly intervalMs = LOG_INTERVAL_MS,
  ) {}

  /** Counts one message. `reason`: a code, a colon and a description. */
  add(topic: string, reason: string): void {
    this.count += 1;
    this.record(topic, reason);
    if (!this.timer) this.writeAndSchedule(); // otherwise the timer writes the next line
  }

  /** Logs the remaining rejections. Call it when no more follow. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.pendingByCode.size > 0) this.write();
  }

  /** Counts a rejection for the next log line, by the code of its reason; further codes than MAX_REASONS together. */
  private record(topic: string, reason: string): void {
    const [code = ''] = reason.split(':', 1);
    const entry = this.pendingByCode.get(code);
    if (entry) entry.count += 1;
    else if (this.pendingByCode.size < MAX_REASONS)
      this.pendingByCode.set(code, {
        count: 1,
        topic: truncate(topic, MAX_TEXT_LENGTH),
        reason: truncate(reason, MAX_TEXT_LENGTH),
      });
    else this.otherCount += 1;
  }

  /** Writes a log line now, and another one after the interval if there are more rejections by then. */
  private writeAndSchedule(): void {
    this.write();
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.pendingByCode.size > 0) this.writeAndSchedule();
    }, this.intervalMs).unref();
  }

  /** Writes a log line and resets the counts of the reasons. */
  private write(): void {
    this.log.warn(
      {
        ...this.fields,
        rejected: this.count,
        reasons: [...this.pendingByCode.values()],
        ...(this.otherCount > 0 && { other_reasons: this.otherCount }),
      },
      this.event,
    );
    this.pendingByCode.clear();
    this.otherCount = 0;
  }
}
