import { ConnectionRepository, normalizeClientDeviceId } from '../../connections';
import { UnitOfWork, type Database } from '../../database';
import { DeviceScopeRepository, DeviceRepository } from '../../devices';
import { notFound } from '../../kernel/errors';
import type { DeviceScope } from '../../kernel/resourceScope';
import { ConnectorKeyRepository, type ConnectorKey, type Source } from './connectorKeyRepository';

/** Lists the latest values of physical devices, so that users can map sensors to them. */
export class ConnectorKeyService {
  private readonly repos;

  constructor(database: Database) {
    this.repos = new UnitOfWork(database, (db) => ({
      connections: new ConnectionRepository(db),
      devices: new DeviceRepository(db),
      deviceScopes: new DeviceScopeRepository(db),
      keys: new ConnectorKeyRepository(db),
    })).repos;
  }

  /**
   * Returns the latest values of a physical device, sorted by path; an empty list for an unknown physical device. The
   * physical device may be another one than the digital device is bound to, so that users can preview a binding. A
   * limited API key only sees physical devices on the connections that it names, and those bound to devices that it
   * names. Throws `device_not_found`, `connection_not_found`, `validation_failed`.
   */
  async list(
    organizationId: string,
    deviceId: string,
    source: Source,
    keyScope?: DeviceScope,
  ): Promise<ConnectorKey[]> {
    await this.repos.devices.get(organizationId, deviceId);
    // Undefined if the API key may see all physical devices of the connection.
    const accessibleClientIds =
      keyScope && !keyScope.connectionIds.has(source.connectionId)
        ? await this.repos.deviceScopes.listNamedClientDeviceIds(organizationId, keyScope, source.connectionId)
        : undefined;
    // A connection without any accessible device looks like a missing one.
    if (accessibleClientIds?.size === 0) throw notFound('connection', source.connectionId);
    const { connectorId } = await this.repos.connections.get(organizationId, source.connectionId);
    const clientDeviceId = normalizeClientDeviceId(connectorId, source.clientDeviceId, 'clientDeviceId');
    if (accessibleClientIds?.has(clientDeviceId) === false) return [];
    return await this.repos.keys.list(organizationId, { connectionId: source.connectionId, clientDeviceId });
  }
}
