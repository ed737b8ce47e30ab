import type { Logger } from '../kernel/logger';
import { truncate } from '../kernel/truncate';

/** A message that is logged: where it came from, and why it is logged. */
interface LoggedMessage {
  /** The MQTT topic; undefined for a gateway. */
  readonly topic?: string | undefined;
  /** The device that sent it; undefined if it is unknown. */
  readonly clientDeviceId?: string | undefined;
  /** A code, a colon and a description. */
  readonly reason: string;
}

/** The count of one reason, with the first message as an example. */
interface CountedReason {
  count: number;
  readonly topic?: string;
  readonly client_device_id?: string;
  readonly reason: string;
}

const LOG_INTERVAL_MS = 10_000;
const MAX_REASONS = 5;
const MAX_TEXT_LENGTH = 255;

/**
 * Counts messages and logs them as warnings, grouped by reason. The first one is logged immediately; after that, one
 * line every 10 seconds contains the count of each reason with an example.
 */
export class GroupedLog {
  /** The number of messages since the log was created. */
  private total = 0;
  /** Messages that are not logged yet, by the code before the colon of the reason. */
  private readonly pendingByCode = new Map<string, CountedReason>();
  /** The number of messages with further reasons since the last log line. */
  private otherCount = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly log: Logger,
    /** The fields of every line. */
    private readonly fields: object,
    private readonly event: string,
    /** The interval between two log lines, milliseconds. */
    private readonly intervalMs = LOG_INTERVAL_MS,
  ) {}

  /** Counts one message. */
  add(message: LoggedMessage): void {
    this.total += 1;
    this.record(message);
    if (!this.timer) this.writeAndSchedule(); // otherwise the timer writes the next line
  }

  /** Logs the remaining messages. Call it when no more follow. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.pendingByCode.size > 0) this.write();
  }

  /** Counts a message for the next log line, by the code of its reason; further codes than MAX_REASONS together. */
  private record({ topic, clientDeviceId, reason }: LoggedMessage): void {
    const [code = ''] = reason.split(':', 1);
    const entry = this.pendingByCode.get(code);
    if (entry) entry.count += 1;
    else if (this.pendingByCode.size < MAX_REASONS)
      this.pendingByCode.set(code, {
        count: 1,
        ...(topic !== undefined && { topic: truncate(topic, MAX_TEXT_LENGTH) }),
        ...(clientDeviceId !== undefined && { client_device_id: truncate(clientDeviceId, MAX_TEXT_LENGTH) }),
        reason: truncate(reason, MAX_TEXT_LENGTH),
      });
    else this.otherCount += 1;
  }

  /** Writes a log line now, and another one after the interval if there are more messages by then. */
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
        total: this.total,
        reasons: [...this.pendingByCode.values()],
        ...(this.otherCount > 0 && { other_reasons: this.otherCount }),
      },
      this.event,
    );
    this.pendingByCode.clear();
    this.otherCount = 0;
  }
}
