import { ConnectionRepository } from '../../connections';
import { UnitOfWork, type Database } from '../../database';
import { type Cursors, getPage, getPageSize } from '../../kernel/pages';
import {
  type DiscoveredDevice,
  DiscoveredDeviceRepository,
  type DiscoveryPosition,
} from './discoveredDeviceRepository';

/** One page of discovered devices. */
interface DiscoveredPage {
  readonly devices: readonly DiscoveredDevice[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
}

/** Lists physical devices that sent uplinks and are not bound to a digital device. */
export class DiscoveredDeviceService {
  private readonly repos;

  constructor(private readonly options: { readonly database: Database; readonly cursors: Cursors }) {
    this.repos = new UnitOfWork(options.database, (db) => ({
      connections: new ConnectionRepository(db),
      discovered: new DiscoveredDeviceRepository(db),
    })).repos;
  }

  /**
   * Lists the discovered devices of a connection, the most recently discovered first. Throws `connection_not_found`,
   * and `validation_failed` for a page token of another list.
   */
  async list(
    organizationId: string,
    connectionId: string,
    requestedSize: number | undefined,
    pageToken: string,
  ): Promise<DiscoveredPage> {
    const { cursors } = this.options;
    const listKey = [organizationId, 'discovered_devices', connectionId];
    await this.repos.connections.get(organizationId, connectionId);
    const after = cursors.decode<DiscoveryPosition>(listKey, pageToken, 'pageToken');
    const size = getPageSize(requestedSize);
    const rows = await this.repos.discovered.list(organizationId, connectionId, after, size + 1);
    const { items, next } = getPage(rows, size, ({ firstSeen, clientDeviceId }) => ({ firstSeen, clientDeviceId }));
    return { devices: items, nextPageToken: next ? cursors.encode(listKey, next) : '' };
  }
}
