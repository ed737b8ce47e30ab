import { ConnectionRepository, normalizeClientDeviceId } from '../../connections';
import { UnitOfWork, type Database } from '../../database';
import { DeviceReachRepository, DeviceRepository } from '../../devices';
import { notFound } from '../../kernel/errors';
import type { DeviceReach } from '../../kernel/reach';
import { ConnectorKeyRepository, type ConnectorKey, type Source } from './connectorKeyRepository';

/** What physical devices sent last, so that sensors can be mapped to it. */
export class ConnectorKeyService {
  private readonly repos;

  constructor(database: Database) {
    this.repos = new UnitOfWork(database, (db) => ({
      connections: new ConnectionRepository(db),
      devices: new DeviceRepository(db),
      bound: new DeviceReachRepository(db),
      keys: new ConnectorKeyRepository(db),
    })).repos;
  }

  /**
   * The paths last seen of a physical device, in the order of their names; none if it was never seen. It need not be the one
   * that the device is bound to, so that a binding can be previewed; but a limited key sees what is bound to a device inside its reach,
   * and all on the connections that it names. Throws `device_not_found`, `connection_not_found`, `validation_failed`.
   */
  async list(organizationId: string, deviceId: string, source: Source, reach?: DeviceReach): Promise<ConnectorKey[]> {
    await this.repos.devices.get(organizationId, deviceId);
    const bound = reach && !reach.connectionIds.has(source.connectionId) ? await this.repos.bound.ofNamed(organizationId, reach, source.connectionId) : undefined;
    if (bound?.size === 0) throw notFound('connection', source.connectionId);
    const { connectorId } = await this.repos.connections.get(organizationId, source.connectionId);
    const clientDeviceId = normalizeClientDeviceId(connectorId, source.clientDeviceId, 'clientDeviceId');
    if (bound?.has(clientDeviceId) === false) return [];
    return await this.repos.keys.list(organizationId, { connectionId: source.connectionId, clientDeviceId });
  }
}
