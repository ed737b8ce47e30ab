import type { Principal } from '../../kernel/principal';
import type { NamedResources } from '../../kernel/resourceScope';

/**
 * Checks that a restricted key may access resources. The api module depends on this interface; the composition root
 * (server) passes the implementation in.
 */
export interface Gate {
  /**
   * Resolves if the key may access all of the resources. Otherwise it throws exactly the error for an id that does not
   * exist. Called only for restricted keys.
   */
  assertAccess(principal: Principal, named: readonly NamedResources[]): Promise<void>;
}
