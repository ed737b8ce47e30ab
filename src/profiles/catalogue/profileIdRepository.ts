import type { Db, HotStatement } from '../../database';

const EXISTS: HotStatement = {
  name: 'profiles.exists',
  sql: () => 'select 1 as there from device_profiles f where f.id = ?',
};

/** Which profiles there are. They belong to the installation, as do all that are imported. */
export class ProfileIdRepository {
  constructor(private readonly db: Db) {}

  /** Whether a profile of this very id was imported. */
  async exists(id: string): Promise<boolean> {
    return (await this.db.all(EXISTS, [id])).length > 0;
  }
}
