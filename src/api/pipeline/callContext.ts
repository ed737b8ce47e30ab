import type { Logger } from '../../kernel/logger';
import type { Principal } from '../../kernel/principal';

/**
 * The context of one call: the caller, the organization and the abort signal. It is passed explicitly, never global.
 */
export interface CallContext {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** The client's x-request-id if it is valid, otherwise a generated one. */
  readonly requestId: string;
  /** The client's address without the port. */
  readonly peer: string;
  /** Set on every method whose scope is not `none`. */
  readonly principal: Principal;
  /** The organization of the key. Every organization that the call names equals it. */
  readonly organizationId: string;
  /**
   * Aborts when the client disconnects or cancels, the deadline passes, the key expires or is revoked (streams only),
   * or the server stops.
   */
  readonly signal: AbortSignal;
  readonly log: Logger;
}
