import type { Db } from '../database';

interface SettingRow {
  value: string;
}

/** What the installation itself keeps; belongs to no organization. */
export class SettingsRepository {
  constructor(private readonly db: Db) {}

  /** The value of a setting. The first one ever to ask makes it; of several at once one wins, and all get the winner's. */
  async getOrCreate(name: string, make: () => string): Promise<string> {
    const known = await this.find(name);
    if (known !== undefined) return known;
    const made = make();
    return (await this.claim(name, made)) ? made : await this.getOrCreate(name, make);
  }

  /** Sets a setting that is not set yet. Whether it did: of several at once only one does, the others wait for its transaction. */
  async claim(name: string, value: string): Promise<boolean> {
    const inserted = await this.db.knex('settings').insert({ name, value }).onConflict('name').ignore().returning('name');
    return inserted.length > 0;
  }

  private async find(name: string): Promise<string | undefined> {
    const row = await this.db.knex('settings').where({ name }).first<SettingRow | undefined>();
    return row?.value;
  }
}
