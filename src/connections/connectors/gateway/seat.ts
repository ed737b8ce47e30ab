import type { Clock } from '../../../kernel/clock';
import { DomainError } from '../../../kernel/errors';
import type { GatewayIdentity, GatewaySession } from './gatewaySession';

/** How long a replaced gateway stays away while another one is attached. */
const AWAY = 30_000;
/** How long it is remembered that a gateway was replaced. */
const REMEMBERED = 5 * 60_000;
const MOST_REMEMBERED = 16;

/**
 * Who is attached to one connection: one at a time, and the newest wins. A gateway that was replaced by another one (or by
 * another start of itself) and comes back while that one is attached is a rival: it waits 30 s, and then wins again.
 */
export class Seat {
  current: GatewaySession | undefined;
  /** Resolves when the last departure that left the seat empty has been dealt with. */
  departure: Promise<void> = Promise.resolve();
  // When each gateway was replaced, on the monotonic clock; oldest first.
  private readonly replaced = new Map<string, number>();

  /** `onRival` is called each time a replaced gateway comes back. */
  constructor(
    private readonly clock: Clock,
    private readonly onRival: (identity: GatewayIdentity) => void,
  ) {}

  /** Seats a session and ends the one that sat there, which it returns. Throws `gateway_replaced` for a rival that has to wait. */
  take(session: GatewaySession): GatewaySession | undefined {
    const previous = this.current;
    const name = nameOf(session.identity);
    if (previous && nameOf(previous.identity) !== name) {
      this.admitRival(session.identity, name);
      this.remember(nameOf(previous.identity));
    }
    this.replaced.delete(name);
    this.current = session;
    previous?.end(replacedBy(session.identity));
    return previous;
  }

  /** Empties the seat if it is this session's. Answers whether it was. */
  leave(session: GatewaySession): boolean {
    if (this.current !== session) return false;
    this.current = undefined;
    return true;
  }

  private admitRival(identity: GatewayIdentity, name: string): void {
    const now = this.clock.monotonic();
    const since = this.replaced.get(name);
    if (since === undefined || now - since >= REMEMBERED) return;
    this.onRival(identity);
    if (now - since < AWAY) throw mustWait(AWAY - (now - since));
  }

  private remember(name: string): void {
    this.replaced.delete(name);
    this.replaced.set(name, this.clock.monotonic());
    const [oldest] = this.replaced.keys();
    if (this.replaced.size > MOST_REMEMBERED && oldest !== undefined) this.replaced.delete(oldest);
  }
}

function nameOf({ gatewayId, bootId }: GatewayIdentity): string {
  return JSON.stringify([gatewayId, bootId]);
}

function replacedBy({ gatewayId, connectionId }: GatewayIdentity): DomainError {
  return gatewayReplaced(connectionId, `gateway ${JSON.stringify(gatewayId)} attached to the same connection; attach again in 30 s, or give each gateway a connection of its own`, AWAY);
}

function mustWait(remaining: number): DomainError {
  const seconds = Math.ceil(remaining / 1000);
  return gatewayReplaced(undefined, `this gateway was replaced by another one that is attached now; attach again in ${seconds} s, or give each gateway a connection of its own`, remaining);
}

function gatewayReplaced(connectionId: string | undefined, message: string, retryAfterMs: number): DomainError {
  return new DomainError('changed_meanwhile', 'gateway_replaced', message, { retryAfterMs, ...(connectionId !== undefined && { metadata: { connection_id: connectionId } }) });
}
