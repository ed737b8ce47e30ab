import {
  ConnectionCheckOutcome as WireOutcome,
  ConnectionState as WireState,
  type Connection as ConnectionMessage,
  type ConnectionPolicy as PolicyMessage,
  type ConnectionStatus as StatusMessage,
  type CreateConnectionRequest,
  type DataWarning as DataWarningMessage,
  type TestConnectionRequest,
  type TestConnectionResponse,
  type UpdateConnectionRequest,
  type WatchConnectionStatusResponse,
} from '../gen/connection/connection_service';
import type { Violation } from '../kernel/errors';
import { getEtag } from '../kernel/etags';
import { optionalTimestamp, toTimestamp } from '../kernel/timestamps';
import { checkConfiguration } from './configurationCheck';
import type { ConnectionPolicy } from './connection';
import { DATA_WARNING_MESSAGES, type DataWarning } from './dataWarning';
import type { ConnectionChange, ConnectionView, NewConnection } from './connectionService';
import type { ConnectionState, ConnectionStatus } from './connectionStatuses';
import type { ConnectionTest } from './connectionTester';
import type { StatusUpdate } from './connectionWatch';
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

/** Converts a connection to its proto message. */
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
    etag: getEtag(connection.revision),
    secretsSet: Object.keys(connection.encryptedSecrets).toSorted(),
  };
}

function statusToMessage({
  state,
  since,
  lastError,
  lastMessageAt,
  warnings,
  dataWarnings,
  software,
}: ConnectionStatus): StatusMessage {
  return {
    state: STATE_TO_WIRE[state],
    since: optionalTimestamp(since),
    lastError,
    lastMessageAt: optionalTimestamp(lastMessageAt),
    warnings: [...warnings],
    software,
    dataWarnings: dataWarnings.map(dataWarningToMessage),
  };
}

function dataWarningToMessage(warning: DataWarning): DataWarningMessage {
  const { code, count, lastAt, topic = '', clientDeviceId = '', reason, example } = warning;
  const message = DATA_WARNING_MESSAGES[code];
  return { code, message, count, lastTime: toTimestamp(lastAt), topic, clientDeviceId, reason, example };
}

/** Reads the connection to create from a request. */
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

/** Reads the changes from a request. */
export function connectionChangeFromMessage(request: UpdateConnectionRequest): ConnectionChange {
  const configuration: JsonObject | undefined = request.configuration;
  return {
    name: request.name,
    description: request.description,
    enabled: request.enabled,
    configuration,
    policy: policyFromMessage(request.policy),
  };
}

/** Validates a test request without the database. */
export function checkTestRequest({ id, connectorId, configuration }: TestConnectionRequest): Violation[] {
  if (id === undefined && connectorId === undefined)
    return [
      {
        field: 'id',
        description: 'is required: set the id of a stored connection, or connectorId and configuration of a new one',
      },
    ];
  if (id !== undefined && connectorId !== undefined)
    return [
      {
        field: 'connectorId',
        description: 'cannot be combined with id: a stored connection already has a connector; omit one of them',
      },
    ];
  return connectorId === undefined ? [] : checkConfiguration(connectorId, configuration ?? {});
}

/** Reads the connection to test from a valid request. */
export function testFromMessage({ id, connectorId, configuration }: TestConnectionRequest): ConnectionTest {
  if (id !== undefined) return { kind: 'stored', id, configuration };
  return { kind: 'new', connectorId: connectorId ?? '', configuration: configuration ?? {} };
}

/** Converts the results of a test to the proto message. */
export function checksToMessage(checks: readonly ConnectionCheck[]): TestConnectionResponse {
  const isOk = checks.every(({ outcome }) => outcome !== 'failed');
  return {
    ok: isOk,
    checks: checks.map(({ name, outcome, message }) => ({ name, outcome: OUTCOME_TO_WIRE[outcome], message })),
  };
}

/** Converts the status of one connection to the message for its watchers. */
export function statusUpdateToMessage(update: StatusUpdate): WatchConnectionStatusResponse {
  const connectionId = update.kind === 'complete' ? '' : update.connectionId;
  const status = update.kind === 'status' ? statusToMessage(update.status) : undefined;
  return { connectionId, status, deleted: update.kind === 'deleted', complete: update.kind === 'complete' };
}

function policyFromMessage(policy: PolicyMessage | undefined): ConnectionPolicy | undefined {
  if (!policy) return undefined;
  const {
    queueLimit,
    sleepy,
    deliveryTimeout,
    ackTimeout,
    maxInFlight,
    implicitAckTimeout,
    convergenceTimeout,
    uplinkInterval,
  } = policy;
  return {
    queueLimit,
    sleepy,
    deliveryTimeout,
    ackTimeout,
    maxInFlight,
    implicitAckTimeout,
    convergenceTimeout,
    uplinkInterval,
  };
}
