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
  /** What they have in common. */
  common: AuditFacts;
  count: number;
}

/** The attempts of one chain. */
interface Window {
  /** On the clock that never jumps. */
  since: number;
  /** How many kinds it may still tell apart. */
  kindsLeft: number;
  readonly kinds: Map<string, Repeated>;
  /** Those beyond, by key, outcome and reason. */
  readonly others: Map<string, Repeated>;
}

/**
 * Makes few events of many attempts: the first of a kind is an event of its own, equal ones of the same minute are one with their count.
 * Of those beyond the kinds of its chain, what a key was told for one reason is one event, without what they differ in.
 */
export class Attempts {
  private readonly windows = new Map<string, Window>();

  constructor(
    private readonly tellCounted: (event: AuditFacts) => void,
    private readonly limits = LIMITS,
  ) {}

  /** Whether it is the first of its kind, and so an event of its own; else it is counted. `now`: on the clock that never jumps. */
  isFirst(attempt: AuditFacts, now: number): boolean {
    const window = this.window(attempt.chain, now);
    const { keyId = '', keyPrefix, peer, method, resource, outcome, reason } = attempt;
    const kind = [keyId, keyPrefix, peer, method, resource, outcome, reason].join('\n');
    const known = window.kinds.get(kind);
    if (known) {
      count(known, { ...attempt, fields: known.count > 0 ? inCommon(known.common.fields, attempt.fields) : attempt.fields });
      return false;
    }
    if (window.kindsLeft >= 1) {
      window.kindsLeft -= 1;
      window.kinds.set(kind, { common: attempt, count: 0 });
      return true;
    }
    const beyond = [keyId, outcome, reason].join('\n');
    const other = window.others.get(beyond);
    if (other) count(other, coarse(other.common, attempt));
    else window.others.set(beyond, { common: attempt, count: 1 });
    return false;
  }

  /** Tells what was counted in windows that are over. `now`: on the clock that never jumps. */
  sweep(now: number): void {
    for (const [chain, window] of this.windows) if (now - window.since >= this.limits.windowMs) this.end(chain, window, now);
  }

  /** Tells what was counted until now. */
  finish(): void {
    for (const window of this.windows.values()) this.tell(window);
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
    this.tell(window);
    const windows = Math.floor((now - window.since) / this.limits.windowMs);
    window.kindsLeft = Math.min(this.limits.mostKinds, window.kindsLeft + windows * this.limits.kindsPerWindow);
    window.since = now;
    window.kinds.clear();
    window.others.clear();
    if (window.kindsLeft === this.limits.mostKinds) this.windows.delete(chain);
  }

  private tell({ kinds, others }: Window): void {
    for (const { common, count: times } of [...kinds.values(), ...others.values()]) if (times > 0) this.tellCounted({ ...common, count: times });
  }
}

function count(repeated: Repeated, common: AuditFacts): void {
  repeated.common = common;
  repeated.count += 1;
}

/** The later one without what it does not share with those before. */
function coarse(before: AuditFacts, attempt: AuditFacts): AuditFacts {
  const shared = (name: 'keyPrefix' | 'peer' | 'method' | 'resource' | 'requestId'): string => (before[name] === attempt[name] ? attempt[name] : '');
  return { ...attempt, keyPrefix: shared('keyPrefix'), peer: shared('peer'), method: shared('method'), resource: shared('resource'), requestId: shared('requestId'), fields: inCommon(before.fields, attempt.fields) };
}

function inCommon(names: readonly string[], others: readonly string[]): readonly string[] {
  return names.length === others.length && names.every((name, at) => name === others[at]) ? others : [];
}
