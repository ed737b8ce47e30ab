import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Migration } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { engines, type TestDatabase } from '../support/engines';

const parents: Migration = {
  name: '0001_parents',
  up: async (knex) => {
    await knex.schema.createTable('parents', (t) => {
      t.text('id').primary();
      t.text('name').notNullable();
    });
    await knex.schema.createTable('children', (t) => {
      t.text('id').primary();
      t.text('parent_id').notNullable().references('id').inTable('parents').onDelete('CASCADE');
    });
  },
  down: async (knex) => {
    await knex.schema.dropTable('children');
    await knex.schema.dropTable('parents');
  },
};

/** SQLite builds a table anew for many changes: where foreign keys act meanwhile, the rows that refer to it go with it. */
const rebuilt: Migration = {
  name: '0002_rebuilt',
  up: async (knex, dialect) => {
    if (dialect.name === 'postgres') return await knex.schema.alterTable('parents', (t) => void t.integer('rank').notNullable().defaultTo(1));
    await knex.schema.createTable('parents_new', (t) => {
      t.text('id').primary();
      t.text('name').notNullable();
      t.integer('rank').notNullable();
    });
    await knex.raw('insert into parents_new (id, name, rank) select id, name, 1 from parents');
    await knex.schema.dropTable('parents');
    await knex.schema.renameTable('parents_new', 'parents');
  },
  down: async (knex) => {
    await knex.raw('alter table parents drop column rank');
  },
};

const added: Migration = {
  name: '0003_added',
  up: async (knex) => await knex.schema.alterTable('children', (t) => void t.text('note').notNullable().defaultTo('')),
  down: async (knex) => await knex.schema.alterTable('children', (t) => void t.dropColumn('note')),
};

const broken: Migration = {
  name: '0003_broken',
  up: async (knex) => {
    await knex('parents').update({ name: 'half done' });
    await knex.schema.createTable('left_over', (t) => void t.text('id').primary());
    throw new Error('this migration is wrong');
  },
  down: async () => {},
};

describe.each(engines())('migrations on $name', ({ name, createEmpty }) => {
  let test: TestDatabase;
  const reopen = async (migrations: readonly Migration[]) => await test.open({ migrations });

  beforeEach(async () => {
    test = await createEmpty([parents]);
    await test.database.migrate();
    const { knex } = test.database.db;
    await knex('parents').insert([{ id: 'p1', name: 'one' }, { id: 'p2', name: 'two' }]);
    await knex('children').insert([{ id: 'c1', parent_id: 'p1' }, { id: 'c2', parent_id: 'p2' }]);
  });
  afterEach(async () => await test.drop());

  it('go up and down and up again with rows in place, and record it', async () => {
    const database = await reopen([parents, rebuilt, added]);
    const { knex } = database.db;
    expect(await database.describe()).toMatchObject({ schema: '0001_parents', pending: ['0002_rebuilt', '0003_added'] });
    expect((await database.migrate()).applied).toEqual(['0002_rebuilt', '0003_added']);
    expect(await knex('children').orderBy('id')).toEqual([{ id: 'c1', parent_id: 'p1', note: '' }, { id: 'c2', parent_id: 'p2', note: '' }]);
    expect(await database.migrateDown('0001_parents')).toEqual(['0003_added', '0002_rebuilt']);
    expect(await knex('parents').orderBy('id')).toEqual([{ id: 'p1', name: 'one' }, { id: 'p2', name: 'two' }]);
    expect((await database.migrate()).applied).toEqual(['0002_rebuilt', '0003_added']);
    expect(await knex('parents').orderBy('id').pluck('rank')).toEqual([1, 1]);
    expect(await knex('children').pluck('id')).toHaveLength(2);
    expect(await database.migrate()).toEqual({ applied: [], copy: undefined });
    // The reference still acts.
    await knex('parents').where({ id: 'p1' }).delete();
    expect(await knex('children').pluck('id')).toEqual(['c2']);
    await expect(knex('children').insert({ id: 'c3', parent_id: 'nobody', note: '' })).rejects.toThrow(/foreign key/i);
    await database.close();
  });

  it('leave nothing behind when one fails', async () => {
    const database = await reopen([parents, rebuilt, broken]);
    await expect(database.migrate()).rejects.toThrow('this migration is wrong');
    expect(await database.describe()).toMatchObject({ schema: '0002_rebuilt', pending: ['0003_broken'] });
    expect(await database.db.knex.schema.hasTable('left_over')).toBe(false);
    expect(await database.db.knex('parents').orderBy('id').pluck('name')).toEqual(['one', 'two']);
    await database.close();
  });

  it('refuse a schema that is newer than the program', async () => {
    const newer = await reopen([parents, rebuilt]);
    await newer.migrate();
    await newer.close();
    const refused = { kind: 'conflict', reason: 'schema_too_new', message: expect.stringContaining('0002_rebuilt') as string };
    await expect(reopen([parents])).rejects.toMatchObject(refused);
    await expect(test.database.migrate()).rejects.toMatchObject(refused);
    await expect(test.database.migrateDown('')).rejects.toMatchObject(refused);
  });

  it('run once when two processes migrate at the same time', async () => {
    const two = [await reopen([parents, rebuilt, added]), await reopen([parents, rebuilt, added])];
    const reports = await Promise.all(two.map(async (database) => await database.migrate()));
    expect(reports.flatMap((report) => report.applied).toSorted()).toEqual(['0002_rebuilt', '0003_added']);
    await Promise.all(two.map(async (database) => await database.close()));
  });

  it('name the migrations there are when an unknown one is asked for', async () => {
    await expect(test.database.migrateDown('0009_none')).rejects.toMatchObject({ reason: 'migration_unknown', message: expect.stringContaining('0001_parents') as string });
  });

  it('copy a SQLite file aside before, and keep the newest three copies', async () => {
    const database = await reopen([parents, rebuilt, added]);
    const backups = join(test.dataDir, 'backups');
    expect(existsSync(backups)).toBe(false);
    const copies: (string | undefined)[] = [];
    for (let round = 0; round < 5; round++) {
      copies.push((await database.migrate()).copy);
      await database.migrateDown('0001_parents');
    }
    await database.close();
    if (name === 'sqlite') {
      expect(readdirSync(backups).map((file) => join(backups, file)).toSorted()).toEqual(copies.slice(2));
    } else {
      expect(copies).toEqual(Array(5).fill(undefined));
      expect(existsSync(backups)).toBe(false);
    }
  });
});

describe.each(engines())('the migrations of the program on $name', ({ createEmpty }) => {
  it('go up, down to nothing, and up again', async () => {
    const test = await createEmpty(MIGRATIONS);
    const all = MIGRATIONS.map((migration) => migration.name);
    expect((await test.database.migrate()).applied).toEqual(all);
    expect(await test.database.migrateDown('')).toEqual(all.toReversed());
    expect((await test.database.describe()).schema).toBe('');
    expect((await test.database.migrate()).applied).toEqual(all);
    expect(await test.database.db.knex('digital_devices').pluck('id')).toEqual([]);
    await test.drop();
  });

  it('have names in their order', () => {
    const names = MIGRATIONS.map((migration) => migration.name);
    expect(names).toEqual(names.toSorted());
    for (const name of names) expect(name).toMatch(/^\d{4}_[a-z0-9_]+$/);
  });
});
