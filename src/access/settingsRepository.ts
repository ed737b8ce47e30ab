import type { Db } from '../database';

interface SettingRow {
  value: string;
}

/** Settings of the installation; they belong to no organization. */
export class SettingsRepository {
  constructor(private readonly db: Db) {}

  /**
   * Returns the value of a setting and creates it on first use. If several callers create it at the same time, all of
   * them receive the value of the first one.
   */
  async getOrCreate(name: string, createValue: () => string): Promise<string> {
    const stored = await this.find(name);
    if (stored !== undefined) return stored;
    const created = createValue();
    // If another caller was faster, its value is read.
    return (await this.claim(name, created)) ? created : await this.getOrCreate(name, createValue);
  }

  /**
   * Stores a setting that does not exist yet; returns whether this call stored it. Of several concurrent calls only one
   * succeeds; the others wait for its transaction.
   */
  async claim(name: string, value: string): Promise<boolean> {
    const inserted = await this.db
      .knex('settings')
      .insert({ name, value })
      .onConflict('name')
      .ignore()
      .returning('name');
    return inserted.length > 0;
  }

  private async find(name: string): Promise<string | undefined> {
    const row = await this.db.knex('settings').where({ name }).first<SettingRow | undefined>();
    return row?.value;
  }
}
