import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import type { Connection } from './connection';
import type { ConnectionStatuses } from './connectionStatuses';
import type { OpenConnection } from './connector';
import { findConnector } from './connectors';
import type { ConnectionSecrets } from './secrets/connectionSecrets';

/** Dependencies of ConnectionFactory. */
interface ConnectionFactoryOptions {
  readonly secrets: ConnectionSecrets;
  readonly statuses: ConnectionStatuses;
  readonly log: Logger;
}

/** Opens connections for their connectors. */
export class ConnectionFactory {
  private readonly unopened = new Map<string, Connection>();

  constructor(private readonly options: ConnectionFactoryOptions) {}

  /** Never throws: a connection that cannot be opened is returned as disabled, and its status contains the reason. */
  open(connection: Connection): OpenConnection {
    this.unopened.delete(connection.id);
    if (!connection.enabled) return { connection, settings: connection.configuration };
    try {
      if (!findConnector(connection.connectorId)) throw connectorUnsupported(connection.connectorId);
      return this.options.secrets.openConnection(connection);
    } catch (error) {
      this.recordFailure(connection, error);
      return { connection: { ...connection, enabled: false }, settings: connection.configuration };
    }
  }

  /**
   * Returns the connections that could not be opened since the last call, as they were then. A key may have been
   * restored since.
   */
  drainUnopened(): Connection[] {
    const unopened = [...this.unopened.values()];
    this.unopened.clear();
    return unopened;
  }

  /** Marks the connection as failed, and remembers it for a retry. */
  private recordFailure(connection: Connection, error: unknown): void {
    const { log, statuses } = this.options;
    const { organizationId, id } = connection;
    const reason =
      error instanceof DomainError
        ? `${error.reason}: ${error.message}`
        : 'internal: the connection cannot be opened; see the log of the server';
    if (statuses.getStatus(connection).lastError !== reason)
      log.error({ err: error, organization_id: organizationId, connection_id: id }, 'connection.open_failed');
    statuses.markFailed(id, reason);
    this.unopened.set(id, connection);
  }
}

function connectorUnsupported(connectorId: string): DomainError {
  return new DomainError(
    'conflict',
    'connector_unsupported',
    `this version of Plantroom has no connector ${JSON.stringify(connectorId)}; start a version that has it, or delete the connection`,
  );
}
