import { DomainError } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import type { Connection } from './connection';
import type { ConnectionStatuses } from './connectionStatuses';
import type { OpenConnection } from './connector';
import type { ConnectionSecrets } from './secrets/connectionSecrets';

/** What opening connections needs of the house. */
export interface ConnectionOpenerOptions {
  readonly secrets: ConnectionSecrets;
  readonly statuses: ConnectionStatuses;
  readonly log: Logger;
}

/** Makes connections ready for their connectors. */
export class ConnectionOpener {
  constructor(private readonly options: ConnectionOpenerOptions) {}

  /** Never throws: a connection whose secrets cannot be read is handed out as if it were switched off, and its status says why. */
  open(connection: Connection): OpenConnection {
    if (!connection.enabled) return { connection, settings: connection.configuration };
    try {
      return this.options.secrets.open(connection);
    } catch (error) {
      const { organizationId, id } = connection;
      this.options.log.error({ err: error, organization_id: organizationId, connection_id: id }, 'connection.not_opened');
      this.options.statuses.failed(id, error instanceof DomainError ? `${error.reason}: ${error.message}` : 'internal: the connection cannot be opened; the log of the server says why');
      return { connection: { ...connection, enabled: false }, settings: connection.configuration };
    }
  }
}
