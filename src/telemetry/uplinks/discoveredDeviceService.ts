import { ConnectionRepository } from '../../connections';
import { UnitOfWork, type Database } from '../../database';
import { type Cursors, pageOf, pageSize } from '../../kernel/pages';
import { type DiscoveredDevice, DiscoveredDeviceRepository, type DiscoveryPlace } from './discoveredDeviceRepository';

/** One page of discovered devices. */
export interface DiscoveredPage {
  readonly devices: readonly DiscoveredDevice[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** Physical devices that sent something and that nobody has bound yet. */
export class DiscoveredDeviceService {
  private readonly repos;

  constructor(private readonly options: { readonly database: Database; readonly cursors: Cursors }) {
    this.repos = new UnitOfWork(options.database, (db) => ({ connections: new ConnectionRepository(db), discovered: new DiscoveredDeviceRepository(db) })).repos;
  }

  /** Those of a connection, the one discovered last first. Throws `connection_not_found`, `validation_failed` for a token that is not of this list. */
  async list(organizationId: string, connectionId: string, requestedSize: number | undefined, pageToken: string): Promise<DiscoveredPage> {
    const { cursors } = this.options;
    const name = [organizationId, 'discovered_devices', connectionId];
    await this.repos.connections.get(organizationId, connectionId);
    const after = cursors.decode<DiscoveryPlace>(name, pageToken, 'pageToken');
    const size = pageSize(requestedSize);
    const rows = await this.repos.discovered.list(organizationId, connectionId, after, size + 1);
    const { items, next } = pageOf(rows, size, ({ firstSeen, clientDeviceId }) => ({ firstSeen, clientDeviceId }));
    return { devices: items, nextPageToken: next ? cursors.encode(name, next) : '' };
  }
}
