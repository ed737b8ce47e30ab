import type { Logger } from '../../../kernel/logger';
import { cut } from '../../../kernel/shortened';

/** What is counted of one reason, with the first message of it for example. */
interface Told {
  count: number;
  readonly topic: string;
  readonly reason: string;
}

const EVERY_MS = 10_000;
const MOST_REASONS = 5;
const LONGEST = 255;

/** Counts what can never be stored. The log tells the first at once, then every 10 seconds what came since: how many of each reason, with a topic. */
export class Rejections {
  /** Since the connection was started. */
  count = 0;
  /** By what stands before the colon of a reason. */
  private readonly untold = new Map<string, Told>();
  private others = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly log: Logger,
    private readonly fields: object,
    private readonly event = 'mqtt.uplink_rejected',
    /** Milliseconds between two lines. */
    private readonly everyMs = EVERY_MS,
  ) {}

  /** One more. `reason`: a code, a colon, and more for people. */
  add(topic: string, reason: string): void {
    this.count += 1;
    this.note(topic, reason);
    if (!this.timer) this.tell();
  }

  /** Tells what is not told yet. Call it when no more come. */
  end(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.untold.size > 0) this.write();
  }

  private note(topic: string, reason: string): void {
    const [code = ''] = reason.split(':', 1);
    const told = this.untold.get(code);
    if (told) told.count += 1;
    else if (this.untold.size < MOST_REASONS) this.untold.set(code, { count: 1, topic: cut(topic, LONGEST), reason: cut(reason, LONGEST) });
    else this.others += 1;
  }

  private tell(): void {
    this.write();
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.untold.size > 0) this.tell();
    }, this.everyMs).unref();
  }

  private write(): void {
    this.log.warn({ ...this.fields, rejected: this.count, reasons: [...this.untold.values()], ...(this.others > 0 && { other_reasons: this.others }) }, this.event);
    this.untold.clear();
    this.others = 0;
  }
}
