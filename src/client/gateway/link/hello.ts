import { GatewayStore, type Hello } from '../../gen/gateway/v1/gateway_service';
import { knownCommand } from '../commands/commandMessages';
import type { KeptCommand } from '../store/gatewayStore';

/** Who the gateway is, over all its streams. */
export interface HelloFacts {
  readonly connectionId: string;
  readonly gatewayId: string;
  /** New at each start. */
  readonly bootId: string;
  readonly isDurable: boolean;
  readonly software: string;
}

/** The version of the protocol that this library speaks. */
const PROTOCOL_VERSION = 1;
/** What the server takes. */
const MOST_KNOWN = 10_000;
// The server takes messages of a few MiB; each result is told again after the welcome anyway.
const MOST_TEXT = 512 * 1024;

/** What a stream begins with. `known`: every open command, and whether its result may be told. */
export function helloMessage(facts: HelloFacts, known: readonly { readonly kept: KeptCommand; readonly isTold: boolean }[]): Hello {
  const { connectionId, gatewayId, bootId, isDurable, software } = facts;
  const text = known.reduce((sum, { kept }) => sum + kept.text.length + kept.code.length, 0);
  return {
    connectionId,
    gatewayId,
    bootId,
    software,
    store: isDurable ? GatewayStore.GATEWAY_STORE_DURABLE : GatewayStore.GATEWAY_STORE_VOLATILE,
    known: known.slice(0, MOST_KNOWN).map(({ kept, isTold }) => knownCommand(kept, isTold, text <= MOST_TEXT)),
    lowestProtocolVersion: PROTOCOL_VERSION,
    highestProtocolVersion: PROTOCOL_VERSION,
  };
}
