import type { Logger } from '../../../kernel/logger';

/** Counts what came and is not used, and says so in the log: what is wrong at the first of a kind, then at each doubling, so that a flood of it is no flood there. */
export class UnusedEvents {
  private readonly counts = new Map<string, number>();

  constructor(
    private readonly log: Logger,
    private readonly fields: object,
  ) {}

  /** `ignored`: it is not for this connection, nothing is wrong. `why`: a short code, one of few. */
  add(kind: 'ignored' | 'rejected', why: string, details: object): void {
    const count = (this.counts.get(why) ?? 0) + 1;
    this.counts.set(why, count);
    const fields = { ...this.fields, ...details, reason: why, count };
    if (kind === 'ignored') this.log.debug(fields, 'chirpstack.event_ignored');
    else if (Number.isInteger(Math.log2(count))) this.log.warn(fields, 'chirpstack.event_rejected');
    else this.log.debug(fields, 'chirpstack.event_rejected');
  }
}
