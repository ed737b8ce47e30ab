import type { Clock } from '../../../kernel/clock';
import { DomainError } from '../../../kernel/errors';
import type { GatewayIdentity, GatewaySession } from './gatewaySession';

/** How long a replaced gateway must wait while another one is attached, milliseconds. */
const REPLACED_BACKOFF_MS = 30_000;
/** How long a replacement is remembered, milliseconds. */
const REMEMBER_REPLACED_MS = 5 * 60_000;
const MAX_REMEMBERED_GATEWAYS = 16;

/**
 * The slot for the attached gateway of one connection: only one at a time, and a new one replaces it. A gateway that
 * was replaced by another one (or by another start of itself) and returns while that one is attached is a conflict: it
 * must wait 30 s, and then replaces the current one again.
 */
export class SessionSlot {
  /** The attached session; undefined if none is attached. */
  current: GatewaySession | undefined;
  /** Resolves when the last detachment without a replacement is processed. */
  detaching: Promise<void> = Promise.resolve();
  /** When each gateway was replaced, by the key of its start (getStartKey), on the monotonic clock; oldest first. */
  private readonly replacedAtByStartKey = new Map<string, number>();

  /** `onConflict` is called each time a replaced gateway returns. */
  constructor(
    private readonly clock: Clock,
    private readonly onConflict: (identity: GatewayIdentity) => void,
  ) {}

  /**
   * Makes a session the current one, and ends and returns the previous one. Throws `gateway_replaced` for a replaced
   * gateway that must wait.
   */
  activate(session: GatewaySession): GatewaySession | undefined {
    const previous = this.current;
    const startKey = getStartKey(session.identity);
    // The same start of a gateway may attach again: it does not conflict with itself.
    if (previous && getStartKey(previous.identity) !== startKey) {
      this.reportConflict(session.identity, startKey);
      this.rememberReplaced(getStartKey(previous.identity));
    }
    this.replacedAtByStartKey.delete(startKey);
    this.current = session;
    previous?.end(otherGatewayAttached(session.identity));
    return previous;
  }

  /** Removes the session if it is the current one. Returns whether it was. */
  deactivate(session: GatewaySession): boolean {
    if (this.current !== session) return false;
    this.current = undefined;
    return true;
  }

  /**
   * Called when a gateway attaches while another one is attached. If it was itself replaced in the last 5 minutes, the
   * two conflict, which is reported; throws `gateway_replaced` if that was less than 30 s ago.
   */
  private reportConflict(identity: GatewayIdentity, startKey: string): void {
    const now = this.clock.monotonic();
    const replacedAt = this.replacedAtByStartKey.get(startKey);
    if (replacedAt === undefined || now - replacedAt >= REMEMBER_REPLACED_MS) return;
    this.onConflict(identity);
    const elapsedMs = now - replacedAt;
    if (elapsedMs < REPLACED_BACKOFF_MS) throw attachedTooEarly(REPLACED_BACKOFF_MS - elapsedMs);
  }

  /** Records that a gateway was replaced now; forgets the oldest one if there are too many. */
  private rememberReplaced(startKey: string): void {
    this.replacedAtByStartKey.delete(startKey);
    this.replacedAtByStartKey.set(startKey, this.clock.monotonic());
    const [oldest] = this.replacedAtByStartKey.keys(); // a map keeps the order of insertion
    if (this.replacedAtByStartKey.size > MAX_REMEMBERED_GATEWAYS && oldest !== undefined)
      this.replacedAtByStartKey.delete(oldest);
  }
}

/** Returns a text that identifies one start of a gateway. */
function getStartKey({ gatewayId, bootId }: GatewayIdentity): string {
  return JSON.stringify([gatewayId, bootId]);
}

/** Creates the error that ends a session because another gateway attached. */
function otherGatewayAttached({ gatewayId, connectionId }: GatewayIdentity): DomainError {
  return gatewayReplaced(
    connectionId,
    `gateway ${JSON.stringify(gatewayId)} attached to the same connection: attach again in 30 s, or use a separate connection for each gateway`,
    REPLACED_BACKOFF_MS,
  );
}

/** Creates the error for a replaced gateway that attaches too early. */
function attachedTooEarly(remainingMs: number): DomainError {
  const seconds = Math.ceil(remainingMs / 1000);
  return gatewayReplaced(
    undefined,
    `this gateway was replaced by another one that is attached: attach again in ${seconds} s, or use a separate connection for each gateway`,
    remainingMs,
  );
}

/** Creates the error `gateway_replaced`. */
function gatewayReplaced(connectionId: string | undefined, message: string, retryAfterMs: number): DomainError {
  return new DomainError('version_conflict', 'gateway_replaced', message, {
    retryAfterMs,
    ...(connectionId !== undefined && { metadata: { connection_id: connectionId } }),
  });
}
