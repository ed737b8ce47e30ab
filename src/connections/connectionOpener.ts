import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import type { Connection } from './connection';
import type { ConnectionStatuses } from './connectionStatuses';
import type { OpenConnection } from './connector';
import { findConnector } from './connectors';
import type { ConnectionSecrets } from './secrets/connectionSecrets';

/** What opening connections needs of the house. */
export interface ConnectionOpenerOptions {
  readonly secrets: ConnectionSecrets;
  readonly statuses: ConnectionStatuses;
  readonly log: Logger;
}

/** Makes connections ready for their connectors. */
export class ConnectionOpener {
  private readonly unopened = new Map<string, Connection>();

  constructor(private readonly options: ConnectionOpenerOptions) {}

  /** Never throws: a connection that cannot be opened is handed out as if it were switched off, and its status says why. */
  open(connection: Connection): OpenConnection {
    this.unopened.delete(connection.id);
    if (!connection.enabled) return { connection, settings: connection.configuration };
    try {
      if (!findConnector(connection.connectorId)) throw connectorUnknown(connection.connectorId);
      return this.options.secrets.open(connection);
    } catch (error) {
      this.failed(connection, error);
      return { connection: { ...connection, enabled: false }, settings: connection.configuration };
    }
  }

  /** Those that could not be opened since this was last asked, as they were then: a key may have been put back. */
  takeUnopened(): Connection[] {
    const taken = [...this.unopened.values()];
    this.unopened.clear();
    return taken;
  }

  private failed(connection: Connection, error: unknown): void {
    const { log, statuses } = this.options;
    const { organizationId, id } = connection;
    const why = error instanceof DomainError ? `${error.reason}: ${error.message}` : 'internal: the connection cannot be opened; the log of the server says why';
    if (statuses.of(connection).lastError !== why) log.error({ err: error, organization_id: organizationId, connection_id: id }, 'connection.not_opened');
    statuses.failed(id, why);
    this.unopened.set(id, connection);
  }
}

function connectorUnknown(connectorId: string): DomainError {
  return new DomainError('conflict', 'connector_unknown', `this version of Plantroom has no connector ${JSON.stringify(connectorId)}; start one that has it, or delete the connection`);
}
