import { UnitOfWork, type Database } from '../database';
import type { Clock } from '../kernel/clock';
import { throwIfAny } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { newId } from '../kernel/ids';
import { getPage, getPageSize, type CreatedPosition, type Cursors } from '../kernel/pages';
import type { DeviceScope } from '../kernel/resourceScope';
import { checkConfiguration } from './configurationCheck';
import { connectionInUse, getFieldsToRepair, type Connection, type ConnectionPolicy } from './connection';
import { connectionRepositories, type ConnectionRepositories } from './connectionRepositories';
import type { ConnectionRepository } from './connectionRepository';
import type { ConnectionStatus, ConnectionStatuses } from './connectionStatuses';
import type { ConnectorHub } from './connectorHub';
import type { JsonObject } from './connectorType';
import type { ConnectionSecrets } from './secrets/connectionSecrets';

/** The connection to create. The validation of the request has trimmed the name. */
export interface NewConnection {
  readonly connectorId: string;
  readonly name: string;
  readonly description: string;
  readonly enabled: boolean;
  /** Includes the secret fields. */
  readonly configuration: JsonObject;
  readonly policy: ConnectionPolicy;
}

/**
 * Changes to a connection. Undefined leaves a field unchanged, and so does a secret field that is absent from a new
 * configuration. A secret field that is null is removed.
 */
export type ConnectionChange = {
  readonly [Field in keyof Omit<NewConnection, 'connectorId'>]: NewConnection[Field] | undefined;
};

/** A connection with its status and the number of devices that are bound to it. */
export interface ConnectionView {
  readonly connection: Connection;
  readonly status: ConnectionStatus;
  readonly deviceCount: number;
}

/** One page of connections. `nextPageToken` is empty on the last page. */
interface ConnectionPage {
  readonly connections: readonly ConnectionView[];
  readonly nextPageToken: string;
}

/** Dependencies of the service. */
interface ConnectionServiceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly hub: ConnectorHub;
  readonly statuses: ConnectionStatuses;
  readonly secrets: ConnectionSecrets;
  /** Called after the commit that deletes a connection. */
  readonly onDeleted: (connectionId: string) => void;
  /** Counts the devices that are bound to each of these connections. Connections without devices may be omitted. */
  readonly deviceCounts: (
    organizationId: string,
    connectionIds: readonly string[],
  ) => Promise<ReadonlyMap<string, number>>;
}

const CLOSE_BATCH_SIZE = 100;

/** Manages connections. Assumes that the field rules of the proto are already checked. */
export class ConnectionService {
  private readonly uow: UnitOfWork<ConnectionRepositories>;

  constructor(private readonly options: ConnectionServiceOptions) {
    this.uow = new UnitOfWork(options.database, connectionRepositories);
  }

  /**
   * Creates a connection. Throws `validation_failed`, `name_taken`, `secrets_unreadable` if secrets cannot be
   * encrypted.
   */
  async create(organizationId: string, input: NewConnection): Promise<ConnectionView> {
    const { clock, hub, statuses, secrets } = this.options;
    throwIfAny(checkConfiguration(input.connectorId, input.configuration));
    await secrets.assertKeyUsable(
      input.connectorId,
      input.configuration,
      async () => await this.uow.repos.connections.hasSecrets(),
    );
    const now = clock.now();
    const identity = { id: newId(), organizationId, connectorId: input.connectorId };
    const connection: Connection = {
      ...input,
      ...identity,
      ...secrets.encryptSecretFields(identity, input.configuration, {}),
      createdAt: now,
      updatedAt: now,
      revision: 1,
    };
    await this.uow.transaction(async ({ connections }, db) => {
      await connections.create(organizationId, connection);
      db.afterCommit(() => {
        hub.connectionChanged(connection);
        statuses.notifyChanged(connection.id);
      });
    });
    return this.toView(connection, 0);
  }

  /** Returns a connection with its status. Throws `connection_not_found`. */
  async get(organizationId: string, id: string): Promise<ConnectionView> {
    const connection = await this.uow.repos.connections.get(organizationId, id);
    return this.toView(connection, await this.countDevices(connection));
  }

  /**
   * Lists connections, newest first; with the scope of a limited API key only those that the key names. Throws
   * `validation_failed` for a token of another list.
   */
  async list(
    organizationId: string,
    requestedSize: number | undefined,
    pageToken: string,
    scope?: DeviceScope,
  ): Promise<ConnectionPage> {
    const listKey = [organizationId, 'connections'];
    const after = this.options.cursors.decode<CreatedPosition>(listKey, pageToken, 'pageToken');
    const size = getPageSize(requestedSize);
    // One more than the page size shows whether there is a next page.
    const rows = await this.uow.repos.connections.list(organizationId, after, size + 1, scope?.connectionIds);
    const page = getPage(rows, size, ({ createdAt, id }) => ({ createdAt, id }));
    const deviceCountById = await this.options.deviceCounts(
      organizationId,
      page.items.map(({ id }) => id),
    );
    return {
      connections: page.items.map((connection) => this.toView(connection, deviceCountById.get(connection.id) ?? 0)),
      nextPageToken: page.next ? this.options.cursors.encode(listKey, page.next) : '',
    };
  }

  /**
   * Changes the fields that are set. Throws `connection_not_found`, `version_conflict`, `validation_failed`,
   * `name_taken`, `secrets_unreadable`.
   */
  async update(
    organizationId: string,
    id: string,
    change: ConnectionChange,
    etag: string | undefined,
  ): Promise<ConnectionView> {
    const { clock, hub, statuses } = this.options;
    const connection = await this.uow.transaction(async ({ connections }, db) => {
      const previous = await connections.lock(organizationId, id);
      checkEtag('connection', previous.revision, etag);
      const updated = await this.applyChange(connections, previous, change, clock.now());
      await connections.update(organizationId, updated);
      db.afterCommit(() => {
        if (updated.enabled !== previous.enabled) statuses.markToggled(id);
        statuses.clearDataWarnings(id);
        hub.connectionChanged(updated);
      });
      return updated;
    });
    return this.toView(connection, await this.countDevices(connection));
  }

  /**
   * Deletes a connection. Throws `connection_not_found`, `version_conflict`, and `connection_in_use` while devices are
   * bound to the connection.
   */
  async delete(organizationId: string, id: string, etag: string | undefined): Promise<void> {
    const connection = await this.uow.repos.connections.get(organizationId, id);
    checkEtag('connection', connection.revision, etag);
    // Counted outside the transaction; devices that are bound in the meantime make `connections.delete` fail.
    const deviceCount = await this.countDevices(connection);
    if (deviceCount > 0) throw connectionInUse(id, deviceCount);
    await this.uow.transaction(async ({ connections }, db) => {
      checkEtag('connection', (await connections.lock(organizationId, id)).revision, etag);
      await connections.delete(organizationId, id);
      db.afterCommit(() => this.close(id));
    });
  }

  /** Closes all connections of a deleted organization, so that they carry no more traffic. */
  async closeAll(organizationId: string): Promise<void> {
    let afterId: string | undefined = ''; // less than every id
    while (afterId !== undefined) {
      const page: readonly Connection[] = await this.uow.repos.connections.listAfter(
        organizationId,
        afterId,
        CLOSE_BATCH_SIZE,
      );
      for (const { id } of page) this.close(id);
      afterId = page.length < CLOSE_BATCH_SIZE ? undefined : page.at(-1)?.id;
    }
  }

  /**
   * Deletes at most `maxCount` connections of a deleted organization, after its devices. Returns how many were deleted.
   */
  async deleteBatch(organizationId: string, maxCount: number): Promise<number> {
    const batch = await this.uow.repos.connections.listAfter(organizationId, '', maxCount);
    for (const { id } of batch) {
      await this.uow.transaction(async ({ connections }, db) => {
        await connections.delete(organizationId, id);
        db.afterCommit(() => this.close(id));
      });
    }
    return batch.length;
  }

  /** Stops the traffic of a deleted connection and removes its status. */
  private close(id: string): void {
    this.options.hub.connectionDeleted(id);
    this.options.statuses.remove(id);
    this.options.onDeleted(id);
  }

  /**
   * Returns the changed connection, and validates it. Every corrupt part must be set again, so the result is not
   * corrupt any more. A secret field that a new configuration omits keeps its stored value.
   */
  private async applyChange(
    connections: ConnectionRepository,
    { corruptParts = [], ...previous }: Connection,
    change: ConnectionChange,
    now: number,
  ): Promise<Connection> {
    const { secrets } = this.options;
    const fieldsToSet = Object.fromEntries(
      Object.entries(change).filter(([, value]) => value !== undefined),
    ) as Partial<NewConnection>;
    throwIfAny(
      getFieldsToRepair(corruptParts)
        .filter((field) => !fieldsToSet[field])
        .map((field) => ({ field, description: 'is unreadable in the database; set it again' })),
    );
    const updated = { ...previous, ...fieldsToSet, revision: previous.revision + 1, updatedAt: now };
    if (!fieldsToSet.configuration) return updated;
    throwIfAny([
      ...secrets.checkDestination(previous, fieldsToSet.configuration),
      ...checkConfiguration(previous.connectorId, secrets.mergeSecrets(previous, fieldsToSet.configuration)),
    ]);
    await secrets.assertKeyUsable(
      previous.connectorId,
      fieldsToSet.configuration,
      async () => await connections.hasSecrets(),
    );
    return {
      ...updated,
      ...secrets.encryptSecretFields(previous, fieldsToSet.configuration, previous.encryptedSecrets),
    };
  }

  private async countDevices({ organizationId, id }: Connection): Promise<number> {
    return (await this.options.deviceCounts(organizationId, [id])).get(id) ?? 0;
  }

  private toView(connection: Connection, deviceCount: number): ConnectionView {
    return { connection, status: this.options.statuses.getStatus(connection), deviceCount };
  }
}
