import type { Logger } from '../kernel/logger';
import type { Principal } from '../kernel/principal';

/** One call: who asks, for which organization, and until when. Passed by hand, never global. */
export interface CallContext {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The caller's x-request-id if it sent a usable one, else one of ours. */
  readonly requestId: string;
  /** The address of the other side, without the port. */
  readonly peer: string;
  /** Set on every method whose scope is not `none`. */
  readonly principal: Principal;
  /** The organization that the call acts in: the key's own, and every one that the call named equals it. */
  readonly organizationId: string;
  /** Aborted when the caller goes away, the deadline passes, the key ends (streams) or the server stops. */
  readonly signal: AbortSignal;
  readonly log: Logger;
}
