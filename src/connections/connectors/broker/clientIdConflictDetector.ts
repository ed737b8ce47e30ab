import type { Clock } from '../../../kernel/clock';

/** Two takeovers, or three short sessions, within this time are a client id conflict. */
const WINDOW_MS = 5 * 60_000;
const SHORT_SESSION_MS = 10_000;
const CONFLICT_TAKEOVERS = 2;
const CONFLICT_SHORT_SESSIONS = 3;
/**
 * The faults of a client that another one replaced if the broker gives no reason, as with MQTT 3.1.1, and as Mosquitto
 * does with 5.
 */
const UNEXPLAINED_FAULTS: ReadonlySet<string> = new Set(['closed', 'connection_lost']);

/**
 * Detects from the ends of sessions whether this client and another one with the same client id keep disconnecting each
 * other.
 */
export class ClientIdConflictDetector {
  private startedAt = Number.NEGATIVE_INFINITY;
  /** When sessions were taken over, on the monotonic clock. */
  private takeovers: readonly number[] = [];
  /** When short sessions ended without an explanation, on the monotonic clock. */
  private shortSessions: readonly number[] = [];

  constructor(private readonly clock: Clock) {}

  /** Reports the start of a session. */
  sessionStarted(): void {
    this.startedAt = this.clock.monotonic();
  }

  /**
   * Reports the end of a session, or a failed attempt, with the code of a BrokerFault. Returns whether a client id
   * conflict is likely by now: after two takeovers, or three short sessions without an explanation, within 5 minutes.
   */
  sessionEnded(code: string): boolean {
    const now = this.clock.monotonic();
    const durationMs = now - this.startedAt;
    this.startedAt = Number.NEGATIVE_INFINITY; // a failed attempt, which has no start, does not count as short
    const isRecent = (endedAt: number): boolean => now - endedAt < WINDOW_MS;
    if (code === 'session_taken_over') {
      this.takeovers = [...this.takeovers.filter(isRecent), now].slice(-CONFLICT_TAKEOVERS);
      return this.takeovers.length === CONFLICT_TAKEOVERS;
    }
    if (!UNEXPLAINED_FAULTS.has(code) || durationMs >= SHORT_SESSION_MS) return false;
    this.shortSessions = [...this.shortSessions.filter(isRecent), now].slice(-CONFLICT_SHORT_SESSIONS);
    return this.shortSessions.length === CONFLICT_SHORT_SESSIONS;
  }
}
