import {
  ConnectionCheckOutcome as WireOutcome,
  ConnectionState as WireState,
  type Connection as ConnectionMessage,
  type ConnectionPolicy as PolicyMessage,
  type ConnectionStatus as StatusMessage,
  type CreateConnectionRequest,
  type TestConnectionRequest,
  type TestConnectionResponse,
  type UpdateConnectionRequest,
  type WatchConnectionStatusResponse,
} from '../gen/connection/connection_service';
import type { Violation } from '../kernel/errors';
import { etagOf } from '../kernel/etags';
import { optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import { checkConfiguration } from './configurationCheck';
import type { ConnectionPolicy } from './connection';
import type { ConnectionChange, ConnectionView, NewConnection } from './connectionService';
import type { ConnectionState, ConnectionStatus } from './connectionStatuses';
import type { Trial } from './connectionTrials';
import type { StatusNews } from './connectionWatch';
import type { ConnectionCheck } from './connector';
import type { JsonObject } from './connectorType';

const STATE_TO_WIRE: Readonly<Record<ConnectionState, WireState>> = {
  disabled: WireState.CONNECTION_STATE_DISABLED,
  connecting: WireState.CONNECTION_STATE_CONNECTING,
  connected: WireState.CONNECTION_STATE_CONNECTED,
  degraded: WireState.CONNECTION_STATE_DEGRADED,
  disconnected: WireState.CONNECTION_STATE_DISCONNECTED,
  error: WireState.CONNECTION_STATE_ERROR,
};

const OUTCOME_TO_WIRE: Readonly<Record<ConnectionCheck['outcome'], WireOutcome>> = {
  ok: WireOutcome.CONNECTION_CHECK_OUTCOME_OK,
  warning: WireOutcome.CONNECTION_CHECK_OUTCOME_WARNING,
  failed: WireOutcome.CONNECTION_CHECK_OUTCOME_FAILED,
  skipped: WireOutcome.CONNECTION_CHECK_OUTCOME_SKIPPED,
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
    secretsSet: Object.keys(connection.sealedSecrets).toSorted(),
  };
}

function statusToMessage({ state, since, lastError, lastMessageAt, warnings, software }: ConnectionStatus): StatusMessage {
  return {
    state: STATE_TO_WIRE[state],
    since: optionalTimestamp(since),
    lastError,
    lastMessageAt: optionalTimestamp(lastMessageAt),
    warnings: [...warnings],
    software,
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

/** What is wrong with a request for a trial, as far as it alone tells. */
export function checkTrial({ id, connectorId, configuration }: TestConnectionRequest): Violation[] {
  if (id === undefined && connectorId === undefined) return [{ field: 'id', description: 'is missing; give the id of a stored connection, or connectorId and configuration of one that is not stored' }];
  if (id !== undefined && connectorId !== undefined) return [{ field: 'connectorId', description: 'has no place beside id: a stored connection has its connector; leave one of them out' }];
  return connectorId === undefined ? [] : checkConfiguration(connectorId, configuration ?? {});
}

/** The trial that a request asks for; checkTrial has nothing to say about it. */
export function trialFromMessage({ id, connectorId, configuration }: TestConnectionRequest): Trial {
  if (id !== undefined) return { kind: 'stored', id, configuration };
  return { kind: 'new', connectorId: connectorId ?? '', configuration: configuration ?? {} };
}

/** What a trial found. */
export function trialToMessage(checks: readonly ConnectionCheck[]): TestConnectionResponse {
  const isOk = checks.every(({ outcome }) => outcome !== 'failed');
  return { ok: isOk, checks: checks.map(({ name, outcome, message }) => ({ name, outcome: OUTCOME_TO_WIRE[outcome], message })) };
}

/** How one connection is doing, as its watchers see it. */
export function statusNewsToMessage(news: StatusNews): WatchConnectionStatusResponse {
  const connectionId = news.kind === 'complete' ? '' : news.connectionId;
  const status = news.kind === 'status' ? statusToMessage(news.status) : undefined;
  return { connectionId, status, deleted: news.kind === 'deleted', complete: news.kind === 'complete' };
}

function policyFromMessage(policy: PolicyMessage | undefined): ConnectionPolicy | undefined {
  if (!policy) return undefined;
  const { queueLimit, sleepy, deliveryTimeout, ackTimeout, maxInFlight, implicitAckTimeout, convergenceTimeout, uplinkInterval } = policy;
  return { queueLimit, sleepy, deliveryTimeout, ackTimeout, maxInFlight, implicitAckTimeout, convergenceTimeout, uplinkInterval };
}
