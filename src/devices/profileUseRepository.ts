import type { Db } from '../database';

/**
 * Counts the physical devices that use a device profile, across all organizations: profiles belong to the installation,
 * and so does their removal.
 */
export class ProfileUseRepository {
  constructor(private readonly db: Db) {}

  /** Counts the physical devices that use each of these profiles. Unused profiles are omitted. */
  async count(profileIds: readonly string[]): Promise<Map<string, number>> {
    const rows = await this.db
      .knex('physical_devices')
      .whereIn('profile_id', [...profileIds])
      .groupBy('profile_id')
      .select<{ profile_id: string }[]>('profile_id')
      .count<{ profile_id: string; devices: number }[]>({ devices: '*' });
    return new Map(rows.map(({ profile_id, devices }) => [profile_id, devices]));
  }
}
