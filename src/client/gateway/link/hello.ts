import { GatewayStore, type Hello } from '../../gen/gateway/v1/gateway_service';
import { buildCommandSnapshot } from '../commands/commandMessages';
import type { StoredCommand } from '../store/gatewayStore';

/** The identity of the gateway, the same for all its streams. */
export interface GatewayIdentity {
  readonly connectionId: string;
  readonly gatewayId: string;
  /** A new id for each start. */
  readonly bootId: string;
  readonly isDurable: boolean;
  readonly software: string;
}

/** The protocol version of this library. */
const PROTOCOL_VERSION = 1;
/** The maximum number of commands that the server accepts. */
const MAX_KNOWN_COMMANDS = 10_000;
// The server accepts messages of a few MiB. All results are sent again after the welcome anyway.
const MAX_TEXT_BYTES = 512 * 1024;

/**
 * Builds the first message of a stream: who the gateway is, and the commands that it has. `openCommands`: every command
 * without an acknowledged result, and whether its result may be sent. The texts of the results are omitted if they are
 * too long together.
 */
export function buildHello(
  identity: GatewayIdentity,
  openCommands: readonly { readonly stored: StoredCommand; readonly hasResult: boolean }[],
): Hello {
  const { connectionId, gatewayId, bootId, isDurable, software } = identity;
  const totalTextLength = openCommands.reduce((sum, { stored }) => sum + stored.text.length + stored.code.length, 0);
  return {
    connectionId,
    gatewayId,
    bootId,
    software,
    store: isDurable ? GatewayStore.GATEWAY_STORE_DURABLE : GatewayStore.GATEWAY_STORE_VOLATILE,
    known: openCommands
      .slice(0, MAX_KNOWN_COMMANDS)
      .map(({ stored, hasResult }) => buildCommandSnapshot(stored, hasResult, totalTextLength <= MAX_TEXT_BYTES)),
    lowestProtocolVersion: PROTOCOL_VERSION,
    highestProtocolVersion: PROTOCOL_VERSION,
  };
}
