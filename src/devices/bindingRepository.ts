import { findProfileId } from '../connections';
import { onUniqueViolation, type Db } from '../database';
import { notFound } from '../kernel/errors';
import { alreadyBound, profileNotFound, type PhysicalDevice } from './device';
import { getBoundCounterName, DeviceCounterRepository } from './deviceCounterRepository';
import { onForeignKeyViolation } from './onForeignKeyViolation';

/** A new binding. */
export type BindingRecord = Pick<
  PhysicalDevice,
  'id' | 'clientDeviceId' | 'connectionId' | 'configuration' | 'createdAt'
>;

/**
 * Stores which physical device a digital device is bound to. Assumes validated input and a locked device of
 * `organizationId`.
 */
export class BindingRepository {
  private readonly counters: DeviceCounterRepository;

  constructor(private readonly db: Db) {
    this.counters = new DeviceCounterRepository(db);
  }

  /**
   * Binds a device that has no binding and updates the counter. Throws `physical_device_already_bound`,
   * `connection_not_found`, and `validation_failed` if the profile was deleted.
   */
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
    const insertUnlessBound = async () =>
      await onUniqueViolation(dialect, () => alreadyBound(binding.connectionId, binding.clientDeviceId), insert);
    await onForeignKeyViolation(dialect, () => notFound('connection', binding.connectionId), insertUnlessBound);
    // A separate statement, so that the violated reference is known.
    if (findProfileId(binding.configuration) !== undefined)
      await this.setConfiguration(organizationId, deviceId, binding.configuration, binding.createdAt);
    await this.counters.change(organizationId, getBoundCounterName(binding.connectionId), 1);
  }

  /** Replaces the configuration of the device's binding. Throws `validation_failed` if the profile was deleted. */
  async setConfiguration(
    organizationId: string,
    deviceId: string,
    configuration: PhysicalDevice['configuration'],
    now: number,
  ): Promise<void> {
    const profileId = findProfileId(configuration) ?? null;
    const update = async () =>
      await this.queryBinding(organizationId, deviceId).update({
        configuration: JSON.stringify(configuration),
        profile_id: profileId,
        updated_at: now,
      });
    await onForeignKeyViolation(this.db.dialect, () => profileNotFound(profileId ?? ''), update);
  }

  /** Deletes the device's binding to this connection. The mappings are retained. */
  async delete(organizationId: string, deviceId: string, connectionId: string): Promise<void> {
    await this.queryBinding(organizationId, deviceId).delete();
    await this.counters.change(organizationId, getBoundCounterName(connectionId), -1);
  }

  private queryBinding(organizationId: string, deviceId: string) {
    return this.db
      .knex('physical_devices as p')
      .where('p.organization_id', organizationId)
      .where('p.device_id', deviceId);
  }
}
