import type { Database } from '../database';
import { DomainError, throwIfAny } from '../kernel/errors';
import { checkConfiguration } from './configurationCheck';
import type { Connection } from './connection';
import { connectionRepositories } from './connectionRepositories';
import type { ConnectionStatuses } from './connectionStatuses';
import type { ConnectionCheck, OpenConnection } from './connector';
import type { ConnectorHub } from './connectorHub';
import type { JsonObject } from './connectorType';
import { DATA_WARNING_MESSAGES, type DataWarning } from './dataWarning';
import type { ConnectionSecrets } from './secrets/connectionSecrets';
import { withoutNullSecrets, withoutSecrets } from './secrets/secretFields';

/** What to test: a stored connection, optionally with another configuration; or a configuration that is not stored. */
export type ConnectionTest =
  | { readonly kind: 'stored'; readonly id: string; readonly configuration: JsonObject | undefined }
  | { readonly kind: 'new'; readonly connectorId: string; readonly configuration: JsonObject };

/** Dependencies of connection tests. */
interface ConnectionTesterOptions {
  readonly database: Database;
  readonly hub: ConnectorHub;
  readonly secrets: ConnectionSecrets;
  readonly statuses: ConnectionStatuses;
  /** The time limit of a test, milliseconds; default 20 s. */
  readonly timeoutMs?: number;
}

const MAX_CONCURRENT_TESTS = 4;
const RETRY_AFTER_MS = 5000;
const TIMEOUT_MS = 20_000;

/**
 * Tests connections. They connect to any address that a caller names, so the number and duration of concurrent tests
 * are limited.
 */
export class ConnectionTester {
  /** The number of running tests of each organization. */
  private readonly runningTests = new Map<string, number>();

  constructor(private readonly options: ConnectionTesterOptions) {}

  /**
   * Tests a connection, and adds a check for each data warning of a stored one. A test that exceeds its time limit
   * results in one failed check. Throws `connection_not_found`, `validation_failed`, `secrets_unreadable`,
   * `connection_corrupt`, `rate_limited`, and the signal's reason once it aborts.
   */
  async test(organizationId: string, test: ConnectionTest, signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    const opened = await this.resolveConnection(organizationId, test);
    this.countStartedTest(organizationId);
    const { timeoutMs = TIMEOUT_MS } = this.options;
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), timeoutMs);
    // The test counts as running until the connector is done, not until the caller disconnects. Otherwise callers that
    // disconnect could start any number of tests.
    const checks = this.options.hub
      .test(opened, AbortSignal.any([signal, timeout.signal]))
      .finally(() => this.countFinishedTest(organizationId));
    try {
      const result = await Promise.race([checks, waitForAbort(signal), waitForAbort(timeout.signal)]);
      signal.throwIfAborted();
      const { dataWarnings } = this.options.statuses.getStatus(opened.connection);
      // An undefined result: the time limit came first.
      return [...(result ?? [createTimeoutCheck(timeoutMs)]), ...dataWarnings.map(toCheck)];
    } finally {
      clearTimeout(timer);
    }
  }

  /** Returns the connection and the settings to test. */
  private async resolveConnection(organizationId: string, test: ConnectionTest): Promise<OpenConnection> {
    const { secrets, database } = this.options;
    if (test.kind === 'new') {
      throwIfAny(checkConfiguration(test.connectorId, test.configuration));
      return {
        connection: toUnstoredConnection(organizationId, test),
        settings: withoutNullSecrets(test.connectorId, test.configuration),
      };
    }
    const connection = await connectionRepositories(database.db).connections.get(organizationId, test.id);
    if (!test.configuration) return secrets.openConnection(connection);
    const settings = secrets.mergeSecrets(connection, test.configuration);
    throwIfAny([
      ...secrets.checkDestination(connection, test.configuration),
      ...checkConfiguration(connection.connectorId, settings),
    ]);
    return {
      connection: { ...connection, configuration: withoutSecrets(connection.connectorId, test.configuration) },
      settings,
    };
  }

  /** Counts a test as running. Throws `rate_limited` if the organization has too many running tests already. */
  private countStartedTest(organizationId: string): void {
    const running = this.runningTests.get(organizationId) ?? 0;
    if (running >= MAX_CONCURRENT_TESTS) throw tooManyTests();
    this.runningTests.set(organizationId, running + 1);
  }

  /** Counts a test as no longer running. */
  private countFinishedTest(organizationId: string): void {
    const remaining = (this.runningTests.get(organizationId) ?? 1) - 1;
    if (remaining > 0) this.runningTests.set(organizationId, remaining);
    else this.runningTests.delete(organizationId);
  }
}

/** Converts a data warning to a check. */
function toCheck({ code, count, lastAt, topic, clientDeviceId, reason, example }: DataWarning): ConnectionCheck {
  const origin = topic === undefined ? `from the device ${clientDeviceId ?? ''}` : `on the topic ${topic}`;
  const last = `last at ${new Date(lastAt).toISOString()} ${origin}: ${reason}; it starts with ${JSON.stringify(example)}`;
  return { name: code, outcome: 'warning', message: `${DATA_WARNING_MESSAGES[code]} (${count} times; ${last})` };
}

/** Creates the connection for a configuration that is not stored; its id is empty. */
function toUnstoredConnection(
  organizationId: string,
  { connectorId, configuration }: ConnectionTest & { readonly kind: 'new' },
): Connection {
  const defaults = {
    id: '',
    name: '',
    description: '',
    encryptedSecrets: {},
    policy: {},
    createdAt: 0,
    updatedAt: 0,
    revision: 0,
  };
  return {
    ...defaults,
    organizationId,
    connectorId,
    enabled: true,
    configuration: withoutSecrets(connectorId, configuration),
  };
}

/** Resolves when the signal aborts. */
async function waitForAbort(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/** Creates the check that reports that a test exceeded its time limit. */
function createTimeoutCheck(timeoutMs: number): ConnectionCheck {
  return {
    name: 'time_limit',
    outcome: 'failed',
    message: `the test timed out after ${timeoutMs / 1000} s; check that the peer responds and that no firewall drops the traffic`,
  };
}

/** Creates the error for too many concurrent tests. */
function tooManyTests(): DomainError {
  return new DomainError(
    'exhausted',
    'rate_limited',
    `${MAX_CONCURRENT_TESTS} connection tests of this organization are already running; try again when one has finished`,
    { retryAfterMs: RETRY_AFTER_MS },
  );
}
