import type { Logger } from '../../../kernel/logger';

/**
 * Counts and logs events that are not used. Each kind of rejection is logged as a warning only when its count doubles,
 * so that a flood of events does not flood the log.
 */
export class IgnoredEventLog {
  private readonly countByReason = new Map<string, number>();

  constructor(
    private readonly log: Logger,
    private readonly fields: object,
  ) {}

  /** Counts an event. `ignored`: it is not for this connection, which is normal. `why`: one of a few short codes. */
  add(kind: 'ignored' | 'rejected', why: string, details: object): void {
    const count = (this.countByReason.get(why) ?? 0) + 1;
    this.countByReason.set(why, count);
    const fields = { ...this.fields, ...details, reason: why, count };
    const hasDoubled = Number.isInteger(Math.log2(count)); // the count is a power of two
    if (kind === 'ignored') this.log.debug(fields, 'chirpstack.event_ignored');
    else if (hasDoubled) this.log.warn(fields, 'chirpstack.event_rejected');
    else this.log.debug(fields, 'chirpstack.event_rejected');
  }
}
