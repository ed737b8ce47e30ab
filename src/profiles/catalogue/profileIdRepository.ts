import type { Db, PreparedStatement } from '../../database';

const EXISTS: PreparedStatement = {
  name: 'profiles.exists',
  sql: () => 'select 1 as found from device_profiles f where f.id = ?',
};

/** Checks which profiles exist. Profiles belong to the installation, not to an organization. */
export class ProfileIdRepository {
  constructor(private readonly db: Db) {}

  /** Returns whether a profile with exactly this id is imported. */
  async exists(id: string): Promise<boolean> {
    return (await this.db.all(EXISTS, [id])).length > 0;
  }
}
