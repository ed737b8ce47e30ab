import type { Db } from '../database';

/** Which device profiles physical devices use, of whatever organization: a profile belongs to the installation, and so does its removal. */
export class ProfileUseRepository {
  constructor(private readonly db: Db) {}

  /** How many physical devices use each of these profiles; those that none uses are left out. */
  async count(profileIds: readonly string[]): Promise<Map<string, number>> {
    const rows = await this.db.knex('physical_devices').whereIn('profile_id', [...profileIds]).groupBy('profile_id').select<{ profile_id: string }[]>('profile_id').count<{ profile_id: string; devices: number }[]>({ devices: '*' });
    return new Map(rows.map(({ profile_id, devices }) => [profile_id, devices]));
  }
}
