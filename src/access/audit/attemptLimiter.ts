import type { AuditDetails } from './auditEvent';

/** How long equal attempts are counted together. */
const WINDOW_MS = 60_000;
/** The maximum number of different attempts (kinds) of one chain that become their own event: a full budget. */
const MAX_KIND_BUDGET = 1000;
/** How many kinds are added to the budget of a chain after each window, up to the full budget. */
const KIND_BUDGET_PER_WINDOW = 50;

/** Equal attempts after the first one, which are reported together as one event with a count. */
interface RepeatedAttempts {
  /** The facts that the counted attempts share. */
  sharedDetails: AuditDetails;
  count: number;
}

/**
 * The attempts of one chain in the current time window. A chain is the audit trail of one organization, or that of the
 * installation.
 */
interface Window {
  /** The start of the window, milliseconds of the monotonic clock. */
  startedAt: number;
  /** How many further kinds may become their own event. A new kind uses one; each window adds some. */
  kindBudget: number;
  /** The attempts that have their own event, by kind, with the equal attempts after them. */
  readonly repeatedByKind: Map<string, RepeatedAttempts>;
  /** Attempts beyond the budget, by key, outcome and reason. */
  readonly repeatedByOtherKind: Map<string, RepeatedAttempts>;
}

/**
 * Reduces many attempts to few events. The first attempt of a kind is an event of its own; equal attempts in the same
 * window become one event with a count. Attempts beyond the budget of their chain are grouped by key, outcome and
 * reason into one event, without the facts in which they differ.
 */
export class AttemptLimiter {
  private readonly windowByChain = new Map<string, Window>();

  constructor(private readonly onCounted: (event: AuditDetails) => void) {}

  /**
   * Returns true if the attempt is the first of its kind and becomes an event of its own; otherwise it is counted.
   * `now`: milliseconds of the monotonic clock.
   */
  countAttempt(attempt: AuditDetails, now: number): boolean {
    const window = this.getWindow(attempt.chain, now);
    const { keyId = '', keyPrefix, peer, method, resource, outcome, reason } = attempt;
    const kind = [keyId, keyPrefix, peer, method, resource, outcome, reason].join('\n');
    const repeated = window.repeatedByKind.get(kind);
    if (repeated) {
      // The first attempt has an event of its own, so its fields need not be shared by the counted ones.
      const isFirstCounted = repeated.count === 0;
      const fields = isFirstCounted ? attempt.fields : getSharedFields(repeated.sharedDetails.fields, attempt.fields);
      addAttempt(repeated, { ...attempt, fields });
      return false;
    }
    if (window.kindBudget >= 1) {
      window.kindBudget -= 1;
      window.repeatedByKind.set(kind, { sharedDetails: attempt, count: 0 });
      return true;
    }
    const otherKind = [keyId, outcome, reason].join('\n');
    const other = window.repeatedByOtherKind.get(otherKind);
    if (other) addAttempt(other, mergeDetails(other.sharedDetails, attempt));
    else window.repeatedByOtherKind.set(otherKind, { sharedDetails: attempt, count: 1 });
    return false;
  }

  /** Ends the windows whose time is over and reports their counts. `now`: milliseconds of the monotonic clock. */
  reportEndedWindows(now: number): void {
    for (const [chain, window] of this.windowByChain)
      if (now - window.startedAt >= WINDOW_MS) this.endWindow(chain, window, now);
  }

  /** Reports the counts of all windows. */
  finish(): void {
    for (const window of this.windowByChain.values()) this.reportCounts(window);
    this.windowByChain.clear();
  }

  /** Returns the current window of a chain. A window that has expired is reported and replaced first. */
  private getWindow(chain: string, now: number): Window {
    const current = this.windowByChain.get(chain);
    if (current && now - current.startedAt < WINDOW_MS) return current;
    if (current) this.endWindow(chain, current, now);
    // endWindow deletes a window whose budget is full again.
    const window = this.windowByChain.get(chain) ?? {
      startedAt: now,
      kindBudget: MAX_KIND_BUDGET,
      repeatedByKind: new Map<string, RepeatedAttempts>(),
      repeatedByOtherKind: new Map<string, RepeatedAttempts>(),
    };
    this.windowByChain.set(chain, window);
    return window;
  }

  /**
   * Ends a window. The next one starts with the remaining budget plus that of the elapsed windows; a chain is removed
   * once its budget is full again.
   */
  private endWindow(chain: string, window: Window, now: number): void {
    this.reportCounts(window);
    const elapsedWindows = Math.floor((now - window.startedAt) / WINDOW_MS);
    window.kindBudget = Math.min(MAX_KIND_BUDGET, window.kindBudget + elapsedWindows * KIND_BUDGET_PER_WINDOW);
    window.startedAt = now;
    window.repeatedByKind.clear();
    window.repeatedByOtherKind.clear();
    // A new window starts with a full budget too.
    if (window.kindBudget === MAX_KIND_BUDGET) this.windowByChain.delete(chain);
  }

  /** Passes one event per kind of attempt that was repeated in the window to the callback. */
  private reportCounts({ repeatedByKind, repeatedByOtherKind }: Window): void {
    for (const { sharedDetails, count } of [...repeatedByKind.values(), ...repeatedByOtherKind.values()])
      if (count > 0) this.onCounted({ ...sharedDetails, count });
  }
}

/** Counts one more attempt and replaces the fields that all counted attempts share. */
function addAttempt(repeated: RepeatedAttempts, sharedDetails: AuditDetails): void {
  repeated.sharedDetails = sharedDetails;
  repeated.count += 1;
}

/** Returns the later attempt without the facts in which it differs from the earlier ones. */
function mergeDetails(before: AuditDetails, attempt: AuditDetails): AuditDetails {
  const getIfEqual = (name: 'keyPrefix' | 'peer' | 'method' | 'resource' | 'requestId'): string =>
    before[name] === attempt[name] ? attempt[name] : '';
  return {
    ...attempt,
    keyPrefix: getIfEqual('keyPrefix'),
    peer: getIfEqual('peer'),
    method: getIfEqual('method'),
    resource: getIfEqual('resource'),
    requestId: getIfEqual('requestId'),
    fields: getSharedFields(before.fields, attempt.fields),
  };
}

/** Returns the field names if both attempts set exactly the same fields; otherwise an empty list. */
function getSharedFields(earlierNames: readonly string[], laterNames: readonly string[]): readonly string[] {
  const isSame =
    earlierNames.length === laterNames.length && earlierNames.every((name, index) => name === laterNames[index]);
  return isSame ? laterNames : [];
}
