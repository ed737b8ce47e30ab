import type { Clock } from '../../../kernel/clock';

/** Two such ends within so long are no accident, nor are three sessions that ended soon. */
const WINDOW_MS = 5 * 60_000;
const SOON_MS = 10_000;
const MOST_TAKEN_OVER = 2;
const MOST_CUT_SHORT = 3;
/** What a client hears that is thrown out by another one where the broker does not say so, as with MQTT 3.1.1, and as Mosquitto does with 5. */
const UNTOLD: ReadonlySet<string> = new Set(['closed', 'connection_lost']);

/** Tells by how its sessions end whether a client and another one with the same client id keep throwing each other out. */
export class Rivalry {
  private upAt = Number.NEGATIVE_INFINITY;
  private takenOver: readonly number[] = [];
  private cutShort: readonly number[] = [];

  constructor(private readonly clock: Clock) {}

  /** A session began. */
  up(): void {
    this.upAt = this.clock.monotonic();
  }

  /** A session ended, or none came about, with this code of a BrokerFault. Answers whether it looks like a rival by now. */
  ended(code: string): boolean {
    const now = this.clock.monotonic();
    const lived = now - this.upAt;
    this.upAt = Number.NEGATIVE_INFINITY;
    const isRecent = (at: number): boolean => now - at < WINDOW_MS;
    if (code === 'session_taken_over') {
      this.takenOver = [...this.takenOver.filter(isRecent), now].slice(-MOST_TAKEN_OVER);
      return this.takenOver.length === MOST_TAKEN_OVER;
    }
    if (!UNTOLD.has(code) || lived >= SOON_MS) return false;
    this.cutShort = [...this.cutShort.filter(isRecent), now].slice(-MOST_CUT_SHORT);
    return this.cutShort.length === MOST_CUT_SHORT;
  }
}
