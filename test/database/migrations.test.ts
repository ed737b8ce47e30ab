import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Database, Migration } from '../../src/database';
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

  it('change rows that are in place, and give them back when undone', async () => {
    const released = MIGRATIONS.slice(0, 2);
    const test = await createEmpty(released);
    await test.database.migrate();
    await furnish(test.database);
    const before = await rowsOf(test.database);
    const database = await test.open({ migrations: MIGRATIONS });
    for (let round = 0; round < 2; round++) {
      expect((await database.migrate()).applied).toEqual(MIGRATIONS.slice(2).map((migration) => migration.name));
      expect(await rowsOf(database)).toEqual(withNewColumns(before));
      const members = await database.db.knex('members').orderBy(['organization_id', 'user_id']).select<{ organization_id: string; user_id: string; role_id: string }[]>('*');
      expect(members.map((member) => [member.organization_id, member.user_id, member.role_id])).toEqual([['o', 'manager', 'owner'], ['o', 'operator', 'operator'], ['o', 'reader', 'viewer'], ['o', 'software', 'admin'], ['q', 'reader', 'owner']]);
      await database.migrateDown(released.at(-1)?.name ?? '');
      expect(await rowsOf(database)).toEqual(before);
    }
    await database.close();
    await test.drop();
  });

  it('have names in their order', () => {
    const names = MIGRATIONS.map((migration) => migration.name);
    expect(names).toEqual(names.toSorted());
    for (const name of names) expect(name).toMatch(/^\d{4}_[a-z0-9_]+$/);
  });
});

const HOUR = 3_600_000;
const TIMES = { created_at: 5 * HOUR + 1, updated_at: 5 * HOUR + 2 };

const PEOPLE = ['gone', 'manager', 'operator', 'reader', 'software'];
const key = { name: 'Key', prefix: 'plr_123456', scopes: '["devices:read"]', connection_ids: '[]', all_connections: 0, is_admin: 0, ...TIMES };

/** Keys from before there were members: only those that are still good make their people members. */
function keysOf(organization: string): (readonly [string, Row])[] {
  const held: readonly (readonly [string, readonly string[], Row?])[] = [
    ['gone', ['api-keys:write'], { revoked_at: 6 }],
    ['gone', ['organizations:write'], { expires_at: 7 }],
    ['reader', ['devices:read', 'telemetry:read']],
    ['operator', ['commands:write']],
    ['software', ['gateways:write'], { all_connections: 1 }],
    ['manager', ['devices:read']],
    ['manager', ['api-keys:write'], { created_at: 5 * HOUR + 9 }],
  ];
  return held.map(([owner, scopes, more], at) => ['api_keys', { ...key, organization_id: organization, id: `k${at}`, hash: `h${at}`, owner_user_id: owner, scopes: JSON.stringify(scopes), ...more }]);
}

/** A row in each table that a later migration changes, and in those that they refer to. */
async function furnish(database: Database): Promise<void> {
  const own = { organization_id: 'o', ...TIMES };
  const rows: readonly (readonly [string, Row])[] = [
    ['organizations', { id: 'o', name: 'One', name_folded: 'one', ...TIMES }],
    ...PEOPLE.map((id): readonly [string, Row] => ['users', { id, name: 'Person', email: '', ...TIMES }]),
    ...keysOf('o'),
    ['organizations', { id: 'q', name: 'Two', name_folded: 'two', ...TIMES }],
    ['api_keys', { ...key, organization_id: 'q', id: 'only', hash: 'only', owner_user_id: 'reader', revoked_at: 6 }],
    ['connections', { ...own, id: 'c', connector_id: 'gateway', name: 'C', name_folded: 'c', description: '', enabled: 1, configuration: '{"offlineAfter":30}', policy: '{}', revision: 3 }],
    ['normalized_keys', { ...own, id: 'k', owner: 'o', name: 'Key', name_folded: 'key' }],
    ['sensor_templates', { ...own, id: 't', owner: 'o', key_name_id: 'k', sensor_type: 'x', value_type: 'number', unit_measurement_id: '', description: '' }],
    ['digital_devices', { ...own, id: 'seen', name: 'Seen', name_folded: 'seen', last_seen_at: 9 * HOUR - 1, interval_unit: 'hour', interval_value: 6, revision: 2 }],
    ['digital_devices', { ...own, id: 'never', name: 'Never', name_folded: 'never', revision: 1 }],
    ['physical_devices', { ...own, id: 'p', device_id: 'seen', connection_id: 'c', client_device_id: 'x', configuration: '{}', uplink_gaps: '[60000]' }],
    ['sensors', { ...own, id: 's', device_id: 'seen', sensor_template_id: 't', position: 0 }],
    ['latest_readings', { sensor_id: 's', organization_id: 'o', physical_device_id: 'p', source_path: 'a', value: '1', received_at: 7.5 }],
    ['executions', execution],
    ['uplinks_seen', { connection_id: 'c', uplink_id: 'u', seen_at: 7 }],
  ];
  for (const [table, row] of rows) await database.db.knex(table).insert(row);
}

type Row = Readonly<Record<string, unknown>>;
const CHANGED = ['organizations', 'users', 'api_keys', 'normalized_keys', 'sensor_templates', 'connections', 'digital_devices', 'physical_devices', 'sensors', 'latest_readings', 'executions', 'uplinks_seen'] as const;
type Rows = Record<(typeof CHANGED)[number], Row[]>;

async function rowsOf({ db }: Database): Promise<Rows> {
  const entries: [string, Row[]][] = [];
  for (const table of CHANGED) entries.push([table, await db.knex<Row>(table).select('*').orderBy(table === 'latest_readings' ? 'sensor_id' : table === 'uplinks_seen' ? 'uplink_id' : 'id')]);
  return Object.fromEntries(entries) as Rows;
}

/** What the migrations after the second make of the rows. */
function withNewColumns(rows: Rows): Rows {
  const add = (table: keyof Rows, columns: Row): Row[] => rows[table].map((row) => ({ ...row, ...columns }));
  return {
    sensors: rows.sensors,
    organizations: add('organizations', { reading_retention_days: 365, thin_readings_after_days: null, revision: 1, deleted_at: null, emptied_at: null }),
    users: add('users', { removed_at: null, revision: 1 }),
    api_keys: add('api_keys', { note: '', restrictions: '', allowed_addresses: '[]', rotated_from: null, revision: 1 }),
    normalized_keys: add('normalized_keys', { revision: 1 }),
    sensor_templates: add('sensor_templates', { revision: 1 }),
    connections: add('connections', { secrets: '' }),
    digital_devices: rows.digital_devices.map((row) => ({ ...row, seen_hour: row['id'] === 'seen' ? 8 : 5 })),
    physical_devices: add('physical_devices', { reported_class: null, profile_id: null }),
    latest_readings: add('latest_readings', { buffered: 0, f_cnt: null }),
    executions: add('executions', { delivered_f_cnt: null }),
    uplinks_seen: add('uplinks_seen', { digest: null }),
  };
}

const execution: Row = {
  id: 'e', organization_id: 'o', device_id: 'seen', physical_device_id: 'p', connection_id: 'c', command_name: 'On', command_revision: 1, trigger_id: 't', params: '{}', params_hash: 'h', strategy: 'no_verification',
  expected: '[]', confirmed: 0, topic: '', policy: '{}', state: 'delivered', final: 0, detail: '', detail_message: '', attempts: 1, holds_slot: 1, version: 4, queue_order: 1, enqueued_at: 1, delivered_at: 5, updated_at: 5, event_count: 2, queries_sent: 0,
};
