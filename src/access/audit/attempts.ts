import type { AuditFacts } from './auditEvent';

/** What keeps a flood of attempts from filling the trail. */
export interface AttemptLimits {
  /** For how long equal attempts are counted, in milliseconds. */
  readonly windowMs: number;
  /** Kinds of attempts that one chain tells apart, at first. */
  readonly mostKinds: number;
  /** Kinds that it is given back with each window. */
  readonly kindsPerWindow: number;
}

const LIMITS: AttemptLimits = { windowMs: 60_000, mostKinds: 1000, kindsPerWindow: 50 };

interface Repeated {
  /** The last of them. */
  latest: AuditFacts;
  count: number;
}

/** The attempts of one chain. */
interface Window {
  /** On the clock that never jumps. */
  since: number;
  /** How many kinds it may still tell apart. */
  kindsLeft: number;
  readonly kinds: Map<string, Repeated>;
  /** Those beyond, by reason. */
  readonly others: Map<string, Repeated>;
}

/**
 * Makes few events of many attempts: the first of a kind is told at once, equal ones of the same minute as one event with their count.
 * A chain that sees very many kinds tells those beyond by their reason alone.
 */
export class Attempts {
  private readonly windows = new Map<string, Window>();

  constructor(
    private readonly tell: (event: AuditFacts) => void,
    private readonly limits = LIMITS,
  ) {}

  /** `now`: on the clock that never jumps. */
  add(attempt: AuditFacts, now: number): void {
    const window = this.window(attempt.chain, now);
    const kind = `${attempt.keyId ?? attempt.keyPrefix}\n${attempt.peer}\n${attempt.method}\n${attempt.outcome}\n${attempt.reason}`;
    const known = window.kinds.get(kind);
    if (known) {
      known.latest = attempt;
      known.count += 1;
    } else if (window.kindsLeft >= 1) {
      window.kindsLeft -= 1;
      window.kinds.set(kind, { latest: attempt, count: 0 });
      this.tell(attempt);
    } else {
      const other = window.others.get(attempt.reason);
      if (other) other.count += 1;
      else window.others.set(attempt.reason, { latest: coarse(attempt), count: 1 });
    }
  }

  /** Tells what was counted in windows that are over. `now`: on the clock that never jumps. */
  sweep(now: number): void {
    for (const [chain, window] of this.windows) if (now - window.since >= this.limits.windowMs) this.end(chain, window, now);
  }

  /** Tells what was counted until now. */
  finish(): void {
    for (const window of this.windows.values()) this.tellCounted(window);
    this.windows.clear();
  }

  private window(chain: string, now: number): Window {
    const known = this.windows.get(chain);
    if (known && now - known.since < this.limits.windowMs) return known;
    if (known) this.end(chain, known, now);
    const window = this.windows.get(chain) ?? { since: now, kindsLeft: this.limits.mostKinds, kinds: new Map<string, Repeated>(), others: new Map<string, Repeated>() };
    this.windows.set(chain, window);
    return window;
  }

  /** The next window goes on with what is left of the kinds; a chain at rest is forgotten when it has all of them back. */
  private end(chain: string, window: Window, now: number): void {
    this.tellCounted(window);
    const windows = Math.floor((now - window.since) / this.limits.windowMs);
    window.kindsLeft = Math.min(this.limits.mostKinds, window.kindsLeft + windows * this.limits.kindsPerWindow);
    window.since = now;
    window.kinds.clear();
    window.others.clear();
    if (window.kindsLeft === this.limits.mostKinds) this.windows.delete(chain);
  }

  private tellCounted(window: Window): void {
    for (const { latest, count } of [...window.kinds.values(), ...window.others.values()]) if (count > 0) this.tell({ ...latest, count });
  }
}

function coarse(attempt: AuditFacts): AuditFacts {
  return { ...attempt, keyId: undefined, keyPrefix: '', userId: undefined, peer: '', method: '', resource: '', fields: [], requestId: '' };
}
