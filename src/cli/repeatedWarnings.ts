const WINDOW_MS = 60_000;
const MAX_PER_WINDOW = 10;
const MAX_KINDS = 1000;

/** Fields that distinguish the kinds of warnings of one event. */
const KIND_FIELDS = ['organization_id', 'connection_id', 'reason'] as const;

/** The warnings of one kind in the current minute. */
interface WarningCount {
  readonly event: string;
  written: number;
  suppressed: number;
}

/**
 * Limits repeated warnings to 10 per minute for each combination of event, organization, connection and reason. At the
 * end of the minute, `report` is called once for each combination that had suppressed warnings.
 */
export class RepeatedWarnings {
  private readonly countByKind = new Map<string, WarningCount>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly report: (repeated: { readonly of: string; readonly count: number }) => void) {}

  /**
   * Counts a warning and returns whether to write it. Beyond MAX_KINDS kinds, a warning of a new kind is not counted
   * and always written.
   */
  shouldWrite(fields: object, event: string): boolean {
    const key = [event, ...KIND_FIELDS.map((name) => (fields as Record<string, unknown>)[name])].join(' ');
    const count = this.countByKind.get(key) ?? { event, written: 0, suppressed: 0 };
    if (this.countByKind.size < MAX_KINDS) this.countByKind.set(key, count);
    this.timer ??= setTimeout(() => this.flush(), WINDOW_MS).unref();
    if (count.written < MAX_PER_WINDOW) count.written += 1;
    else count.suppressed += 1;
    return count.suppressed === 0;
  }

  /** Reports the suppressed warnings and starts a new minute. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const counts = [...this.countByKind.values()];
    this.countByKind.clear();
    for (const { event, suppressed } of counts) if (suppressed > 0) this.report({ of: event, count: suppressed });
  }
}
