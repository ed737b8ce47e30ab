import { randomUUID } from 'node:crypto';
import { GatewayError } from '../gatewayError';
import type { StoreIdentity } from './gatewayStore';

/** The stored identity of a store. */
export interface StoredIdentity {
  readonly connectionId: string;
  readonly gatewayId: string;
}

/** Creates the identity of a new store. */
export function createIdentity({ connectionId, gatewayId }: StoreIdentity): StoredIdentity {
  return { connectionId, gatewayId: gatewayId ?? randomUUID() };
}

/**
 * Throws GatewayError `store_of_another` if a store belongs to another gateway or connection. `name`: the name of the
 * store in the message.
 */
export function assertSameIdentity(name: string, stored: StoredIdentity, requested: StoreIdentity): void {
  if (stored.connectionId !== requested.connectionId) {
    throw new GatewayError(
      'store_of_another',
      `${name} belongs to the connection ${stored.connectionId}, but the gateway was started for ${requested.connectionId}; use a separate store for each connection`,
    );
  }
  if (requested.gatewayId !== undefined && stored.gatewayId !== requested.gatewayId) {
    throw new GatewayError(
      'store_of_another',
      `${name} belongs to the gateway ${stored.gatewayId}, but the gateway was started as ${requested.gatewayId}; omit gatewayId to continue as ${stored.gatewayId}, or use a separate store for a new gateway`,
    );
  }
}
