import { randomUUID } from 'node:crypto';
import { GatewayError } from '../gatewayError';
import type { StoreIdentity } from './gatewayStore';

/** Whose store it is, as it is kept. */
export interface KeptIdentity {
  readonly connectionId: string;
  readonly gatewayId: string;
}

/** The identity of a new store. */
export function newIdentity({ connectionId, gatewayId }: StoreIdentity): KeptIdentity {
  return { connectionId, gatewayId: gatewayId ?? randomUUID() };
}

/** Throws GatewayError `store_of_another` where a store is not for this gateway of this connection. `name`: how to call the store in the message. */
export function requireSame(name: string, kept: KeptIdentity, asked: StoreIdentity): void {
  if (kept.connectionId !== asked.connectionId) {
    throw new GatewayError('store_of_another', `${name} belongs to the connection ${kept.connectionId}, and the gateway was started for ${asked.connectionId}; give each connection a store of its own`);
  }
  if (asked.gatewayId !== undefined && kept.gatewayId !== asked.gatewayId) {
    throw new GatewayError('store_of_another', `${name} belongs to the gateway ${kept.gatewayId}, and the gateway was started as ${asked.gatewayId}; leave gatewayId out to go on as ${kept.gatewayId}, or give a new gateway a store of its own`);
  }
}
