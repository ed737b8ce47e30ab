import { ConnectionState as WireState, type Connection as ConnectionMessage, type ConnectionPolicy as PolicyMessage, type ConnectionStatus as StatusMessage, type CreateConnectionRequest, type UpdateConnectionRequest } from '../gen/connection/connection_service';
import { etagOf } from '../kernel/etags';
import { optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import type { ConnectionPolicy } from './connection';
import type { ConnectionChange, ConnectionView, NewConnection } from './connectionService';
import type { ConnectionState, ConnectionStatus } from './connectionStatuses';
import type { JsonObject } from './connectorType';

const STATE_TO_WIRE: Readonly<Record<ConnectionState, WireState>> = {
  disabled: WireState.CONNECTION_STATE_DISABLED,
  connecting: WireState.CONNECTION_STATE_CONNECTING,
  connected: WireState.CONNECTION_STATE_CONNECTED,
  degraded: WireState.CONNECTION_STATE_DEGRADED,
  disconnected: WireState.CONNECTION_STATE_DISCONNECTED,
  error: WireState.CONNECTION_STATE_ERROR,
};

/** A connection as it is shown. */
export function connectionToMessage({ connection, status, deviceCount }: ConnectionView): ConnectionMessage {
  const { id, organizationId, connectorId, name, description, enabled, configuration, policy } = connection;
  return {
    id,
    organizationId,
    connectorId,
    name,
    description,
    enabled,
    configuration,
    status: statusToMessage(status),
    policy,
    deviceCount,
    createdAt: toTimestamp(connection.createdAt),
    updatedAt: toTimestamp(connection.updatedAt),
    etag: etagOf(connection.revision),
  };
}

function statusToMessage({ state, since, lastError, lastMessageAt, warnings }: ConnectionStatus): StatusMessage {
  return {
    state: STATE_TO_WIRE[state],
    since: optionalTimestamp(since),
    lastError,
    lastMessageAt: optionalTimestamp(lastMessageAt),
    warnings: [...warnings],
  };
}

/** The connection that a request asks for. */
export function newConnectionFromMessage(request: CreateConnectionRequest): NewConnection {
  return {
    connectorId: request.connectorId,
    name: request.name,
    description: request.description ?? '',
    enabled: request.enabled ?? true,
    configuration: request.configuration ?? {},
    policy: policyFromMessage(request.policy) ?? {},
  };
}

/** The change that a request asks for. */
export function connectionChangeFromMessage(request: UpdateConnectionRequest): ConnectionChange {
  const configuration: JsonObject | undefined = request.configuration;
  return { name: request.name, description: request.description, enabled: request.enabled, configuration, policy: policyFromMessage(request.policy) };
}

function policyFromMessage(policy: PolicyMessage | undefined): ConnectionPolicy | undefined {
  if (!policy) return undefined;
  const { queueLimit, sleepy, deliveryTimeout, ackTimeout, maxInFlight, implicitAckTimeout, convergenceTimeout, uplinkInterval } = policy;
  return { queueLimit, sleepy, deliveryTimeout, ackTimeout, maxInFlight, implicitAckTimeout, convergenceTimeout, uplinkInterval };
}
