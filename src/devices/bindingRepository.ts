import { profileIdOf } from '../connections';
import { uniqueOr, type Db } from '../database';
import { notFound } from '../kernel/errors';
import { alreadyBound, noSuchProfile, type PhysicalDevice } from './device';
import { boundTo, DeviceCounterRepository } from './deviceCounterRepository';
import { foreignKeyOr } from './foreignKeyOr';

/** A binding to make. */
export type BindingRecord = Pick<PhysicalDevice, 'id' | 'clientDeviceId' | 'connectionId' | 'configuration' | 'createdAt'>;

/** Which physical device a digital device is bound to. Assumes validated input, a device of `organizationId`, and that it is locked. */
export class BindingRepository {
  private readonly counters: DeviceCounterRepository;

  constructor(private readonly db: Db) {
    this.counters = new DeviceCounterRepository(db);
  }

  /** Binds a device that has no binding, and counts it. Throws `physical_device_already_bound`, `connection_not_found`, and `validation_failed` for a profile that is gone. */
  async create(organizationId: string, deviceId: string, binding: BindingRecord): Promise<void> {
    const insert = async () =>
      await this.db.knex('physical_devices').insert({
        id: binding.id,
        organization_id: organizationId,
        device_id: deviceId,
        connection_id: binding.connectionId,
        client_device_id: binding.clientDeviceId,
        configuration: JSON.stringify(binding.configuration),
        created_at: binding.createdAt,
        updated_at: binding.createdAt,
      });
    const { dialect } = this.db;
    const unbound = async () => await uniqueOr(dialect, () => alreadyBound(binding.connectionId, binding.clientDeviceId), insert);
    await foreignKeyOr(dialect, () => notFound('connection', binding.connectionId), unbound);
    // By itself, so that it is known which reference was refused.
    if (profileIdOf(binding.configuration) !== undefined) await this.setConfiguration(organizationId, deviceId, binding.configuration, binding.createdAt);
    await this.counters.change(organizationId, boundTo(binding.connectionId), 1);
  }

  /** Replaces the configuration of the device's binding. Throws `validation_failed` for a profile that is gone. */
  async setConfiguration(organizationId: string, deviceId: string, configuration: PhysicalDevice['configuration'], now: number): Promise<void> {
    const profileId = profileIdOf(configuration) ?? null;
    const update = async () => await this.of(organizationId, deviceId).update({ configuration: JSON.stringify(configuration), profile_id: profileId, updated_at: now });
    await foreignKeyOr(this.db.dialect, () => noSuchProfile(profileId ?? ''), update);
  }

  /** Removes the device's binding, which is to this connection; its mappings stay. */
  async delete(organizationId: string, deviceId: string, connectionId: string): Promise<void> {
    await this.of(organizationId, deviceId).delete();
    await this.counters.change(organizationId, boundTo(connectionId), -1);
  }

  private of(organizationId: string, deviceId: string) {
    return this.db.knex('physical_devices as p').where('p.organization_id', organizationId).where('p.device_id', deviceId);
  }
}
