import { UnitOfWork, type Database } from '../database';
import type { Clock } from '../kernel/clock';
import { throwIfAny } from '../kernel/errors';
import { checkEtag } from '../kernel/etags';
import { newId } from '../kernel/ids';
import { pageOf, pageSize, type CreatedPosition, type Cursors } from '../kernel/pages';
import type { DeviceReach } from '../kernel/reach';
import { checkConfiguration } from './configurationCheck';
import { connectionInUse, fieldsToGiveAgain, type Connection, type ConnectionPolicy } from './connection';
import { connectionRepositories, type ConnectionRepositories } from './connectionRepositories';
import type { ConnectionRepository } from './connectionRepository';
import type { ConnectionStatus, ConnectionStatuses } from './connectionStatuses';
import type { ConnectorHub } from './connectorHub';
import type { JsonObject } from './connectorType';
import type { ConnectionSecrets } from './secrets/connectionSecrets';

/** The connection to create; the name is trimmed. */
export interface NewConnection {
  readonly connectorId: string;
  readonly name: string;
  readonly description: string;
  readonly enabled: boolean;
  /** With its secret fields. */
  readonly configuration: JsonObject;
  readonly policy: ConnectionPolicy;
}

/** What to change on a connection; undefined stays as it is, and so does a secret field that a new configuration lacks. One that is null is removed. */
export type ConnectionChange = { readonly [Field in keyof Omit<NewConnection, 'connectorId'>]: NewConnection[Field] | undefined };

/** A connection as it is shown: how it is doing, and how many devices are bound to it. */
export interface ConnectionView {
  readonly connection: Connection;
  readonly status: ConnectionStatus;
  readonly deviceCount: number;
}

/** One page of connections; `nextPageToken` is empty on the last. */
export interface ConnectionPage {
  readonly connections: readonly ConnectionView[];
  readonly nextPageToken: string;
}

/** What the service needs of the house. */
export interface ConnectionServiceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly cursors: Cursors;
  readonly hub: ConnectorHub;
  readonly statuses: ConnectionStatuses;
  readonly secrets: ConnectionSecrets;
  /** Told of a connection that was deleted, once that is on disk. */
  readonly onDeleted: (connectionId: string) => void;
  /** How many devices are bound to each of these connections; those with none may be left out. */
  readonly deviceCounts: (organizationId: string, connectionIds: readonly string[]) => Promise<ReadonlyMap<string, number>>;
}

const CLOSED_AT_ONCE = 100;

/** Configured instances of connectors. Assumes that the field rules of the proto hold. */
export class ConnectionService {
  private readonly work: UnitOfWork<ConnectionRepositories>;

  constructor(private readonly options: ConnectionServiceOptions) {
    this.work = new UnitOfWork(options.database, connectionRepositories);
  }

  /** Throws `validation_failed`, `name_taken`, `secrets_unreadable` if secrets cannot be encrypted. */
  async create(organizationId: string, input: NewConnection): Promise<ConnectionView> {
    const { clock, hub, statuses, secrets } = this.options;
    throwIfAny(checkConfiguration(input.connectorId, input.configuration));
    await secrets.checkKey(input.connectorId, input.configuration, async () => await this.work.repos.connections.isAnySealed());
    const now = clock.now();
    const place = { id: newId(), organizationId, connectorId: input.connectorId };
    const connection: Connection = { ...input, ...place, ...secrets.store(place, input.configuration, {}), createdAt: now, updatedAt: now, revision: 1 };
    await this.work.transaction(async ({ connections }, db) => {
      await connections.create(organizationId, connection);
      db.afterCommit(() => {
        hub.connectionChanged(connection);
        statuses.changed(connection.id);
      });
    });
    return this.view(connection, 0);
  }

  /** Throws `connection_not_found`. */
  async get(organizationId: string, id: string): Promise<ConnectionView> {
    const connection = await this.work.repos.connections.get(organizationId, id);
    return this.view(connection, await this.countDevices(connection));
  }

  /** Newest created first; with the reach of a limited key those that it names. Throws `validation_failed` for a token that this list did not give out. */
  async list(organizationId: string, requestedSize: number | undefined, pageToken: string, reach?: DeviceReach): Promise<ConnectionPage> {
    const name = [organizationId, 'connections'];
    const after = this.options.cursors.decode<CreatedPosition>(name, pageToken, 'pageToken');
    const size = pageSize(requestedSize);
    const rows = await this.work.repos.connections.list(organizationId, after, size + 1, reach?.connectionIds);
    const page = pageOf(rows, size, ({ createdAt, id }) => ({ createdAt, id }));
    const counts = await this.options.deviceCounts(organizationId, page.items.map(({ id }) => id));
    return {
      connections: page.items.map((connection) => this.view(connection, counts.get(connection.id) ?? 0)),
      nextPageToken: page.next ? this.options.cursors.encode(name, page.next) : '',
    };
  }

  /** Changes the given fields. Throws `connection_not_found`, `changed_meanwhile`, `validation_failed`, `name_taken`, `secrets_unreadable`. */
  async update(organizationId: string, id: string, change: ConnectionChange, etag: string | undefined): Promise<ConnectionView> {
    const { clock, hub, statuses } = this.options;
    const connection = await this.work.transaction(async ({ connections }, db) => {
      const before = await connections.lock(organizationId, id);
      checkEtag('connection', before.revision, etag);
      const after = await this.changed(connections, before, change, clock.now());
      await connections.update(organizationId, after);
      db.afterCommit(() => {
        if (after.enabled !== before.enabled) statuses.switched(id);
        hub.connectionChanged(after);
      });
      return after;
    });
    return this.view(connection, await this.countDevices(connection));
  }

  /** Throws `connection_not_found`, `changed_meanwhile`, `connection_in_use` while devices are bound to it. */
  async delete(organizationId: string, id: string, etag: string | undefined): Promise<void> {
    const connection = await this.work.repos.connections.get(organizationId, id);
    checkEtag('connection', connection.revision, etag);
    const devices = await this.countDevices(connection);
    if (devices > 0) throw connectionInUse(id, devices);
    await this.work.transaction(async ({ connections }, db) => {
      checkEtag('connection', (await connections.lock(organizationId, id)).revision, etag);
      await connections.delete(organizationId, id);
      db.afterCommit(() => this.close(id));
    });
  }

  /** Closes all connections of an organization that is deleted: nothing comes or goes over them any more. */
  async closeAll(organizationId: string): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page: readonly Connection[] = await this.work.repos.connections.listAfter(organizationId, after, CLOSED_AT_ONCE);
      for (const { id } of page) this.close(id);
      after = page.length < CLOSED_AT_ONCE ? undefined : page.at(-1)?.id;
    }
  }

  /** Deletes at most `most` connections of an organization that goes and has no devices any more; how many. */
  async removeSome(organizationId: string, most: number): Promise<number> {
    const some = await this.work.repos.connections.listAfter(organizationId, '', most);
    for (const { id } of some) {
      await this.work.transaction(async ({ connections }, db) => {
        await connections.delete(organizationId, id);
        db.afterCommit(() => this.close(id));
      });
    }
    return some.length;
  }

  private close(id: string): void {
    this.options.hub.connectionDeleted(id);
    this.options.statuses.forget(id);
    this.options.onDeleted(id);
  }

  private async changed(connections: ConnectionRepository, { damaged = [], ...before }: Connection, change: ConnectionChange, now: number): Promise<Connection> {
    const { secrets } = this.options;
    const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Partial<NewConnection>;
    throwIfAny(fieldsToGiveAgain(damaged).filter((field) => !given[field]).map((field) => ({ field, description: 'cannot be read in the database; give it again' })));
    const after = { ...before, ...given, revision: before.revision + 1, updatedAt: now };
    if (!given.configuration) return after;
    throwIfAny([...secrets.checkPlace(before, given.configuration), ...checkConfiguration(before.connectorId, secrets.merged(before, given.configuration))]);
    await secrets.checkKey(before.connectorId, given.configuration, async () => await connections.isAnySealed());
    return { ...after, ...secrets.store(before, given.configuration, before.sealedSecrets) };
  }

  private async countDevices({ organizationId, id }: Connection): Promise<number> {
    return (await this.options.deviceCounts(organizationId, [id])).get(id) ?? 0;
  }

  private view(connection: Connection, deviceCount: number): ConnectionView {
    return { connection, status: this.options.statuses.of(connection), deviceCount };
  }
}
