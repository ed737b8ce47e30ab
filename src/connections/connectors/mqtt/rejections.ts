import type { Clock } from '../../../kernel/clock';
import type { Logger } from '../../../kernel/logger';

const EVERY = 10_000;

/** Counts what can never be stored. The log names one of them every 10 seconds, and how many there were. */
export class Rejections {
  /** Since the connection was started. */
  count = 0;
  private toldAt = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly clock: Clock,
    private readonly log: Logger,
    private readonly fields: object,
    private readonly event = 'mqtt.uplink_rejected',
  ) {}

  /** One more. */
  add(topic: string, reason: string): void {
    this.count += 1;
    const now = this.clock.monotonic();
    if (now - this.toldAt < EVERY) return;
    this.toldAt = now;
    this.log.warn({ ...this.fields, topic: topic.slice(0, 255), reason, rejected: this.count }, this.event);
  }
}
