import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { version } from '../../package.json';
import type { Database, Migration } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { Child } from '../support/child';
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

/**
 * SQLite rebuilds a table for many changes. If foreign keys were active meanwhile, the rows that refer to it would be
 * deleted.
 */
const rebuilt: Migration = {
  name: '0002_rebuilt',
  up: async (knex, dialect) => {
    if (dialect.name === 'postgres')
      return await knex.schema.alterTable('parents', (t) => void t.integer('rank').notNullable().defaultTo(1));
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
    await knex('parents').insert([
      { id: 'p1', name: 'one' },
      { id: 'p2', name: 'two' },
    ]);
    await knex('children').insert([
      { id: 'c1', parent_id: 'p1' },
      { id: 'c2', parent_id: 'p2' },
    ]);
  });
  afterEach(async () => await test.drop());

  it('go up and down and up again with existing rows, and are recorded', async () => {
    const database = await reopen([parents, rebuilt, added]);
    const { knex } = database.db;
    expect(await database.describe()).toMatchObject({
      schema: '0001_parents',
      pending: ['0002_rebuilt', '0003_added'],
    });
    expect((await database.migrate()).applied).toEqual(['0002_rebuilt', '0003_added']);
    expect(await knex('children').orderBy('id')).toEqual([
      { id: 'c1', parent_id: 'p1', note: '' },
      { id: 'c2', parent_id: 'p2', note: '' },
    ]);
    expect(await database.migrateDown('0001_parents')).toEqual(['0003_added', '0002_rebuilt']);
    expect(await knex('parents').orderBy('id')).toEqual([
      { id: 'p1', name: 'one' },
      { id: 'p2', name: 'two' },
    ]);
    expect((await database.migrate()).applied).toEqual(['0002_rebuilt', '0003_added']);
    expect(await knex('parents').orderBy('id').pluck('rank')).toEqual([1, 1]);
    expect(await knex('children').pluck('id')).toHaveLength(2);
    expect(await database.migrate()).toEqual({ applied: [], copy: undefined });
    // The reference is still enforced.
    await knex('parents').where({ id: 'p1' }).delete();
    expect(await knex('children').pluck('id')).toEqual(['c2']);
    await expect(knex('children').insert({ id: 'c3', parent_id: 'nobody', note: '' })).rejects.toThrow(/foreign key/i);
    await database.close();
  });

  it('are rolled back, including earlier ones, when one fails, and report which, what is left and what to do', async () => {
    const database = await reopen([parents, rebuilt, broken]);
    const error = await rejected(database.migrate());
    expect(error).toMatchObject({
      kind: 'internal',
      reason: 'migration_failed',
      message: expect.stringMatching(
        /^the migration 0003_broken failed \(this migration is wrong\) and nothing was changed: the database is unchanged, at 0001_parents.*previous version of the program/,
      ) as string,
    });
    expect(error.message.includes('backups/before-migration-')).toBe(name === 'sqlite');
    await expectUntouched(database);
    await database.close();
  });

  it('are rolled back when one leaves a row with a dangling reference', async () => {
    const orphans: Migration = {
      name: '0003_orphans',
      up: async (knex) => void (await knex('parents').where({ id: 'p1' }).delete()),
      down: async () => {},
    };
    const uncascaded: Migration = {
      ...rebuilt,
      up: async (knex, dialect) => {
        await rebuilt.up(knex, dialect);
        if (dialect.name === 'postgres') throw new Error('PostgreSQL looks at each statement');
      },
    };
    const database = await reopen([parents, uncascaded, orphans, added]);
    await expect(database.migrate()).rejects.toThrow(
      name === 'sqlite'
        ? /0003_orphans failed \(the migration left rows that refer to missing rows: 1, the first one in children/
        : /0002_rebuilt failed/,
    );
    await expectUntouched(database);
    await database.close();
  });

  it('are rolled back by a kill in the middle, and continue when they are started again', async () => {
    const child = Child.start(STUCK, [test.url, test.dataDir]);
    await child.wrote('in the middle');
    await child.kill();
    await expectUntouched(test.database);
    const database = await reopen([parents, rebuilt, added]);
    expect((await database.migrate()).applied).toEqual(['0002_rebuilt', '0003_added']);
    await database.close();
  });

  it('support a dry run, which reports how long they take and changes nothing', async () => {
    const database = await reopen([parents, rebuilt, added]);
    const report = await database.dryRunMigrations();
    expect(report).toMatchObject({
      schema: '0001_parents',
      pending: ['0002_rebuilt', '0003_added'],
      rows: 5,
      failure: undefined,
    });
    expect(report.tried.map((one) => one.name)).toEqual(['0002_rebuilt', '0003_added']);
    expect(report.bytes).toBeGreaterThan(4096);
    if (name === 'sqlite') expect(report.space?.neededBytes).toBeGreaterThan(report.bytes);
    await expectUntouched(database);
    await database.migrate();
    expect(await database.dryRunMigrations()).toMatchObject({ schema: '0003_added', pending: [], tried: [] });
    await database.close();
    const failing = await test.open({ migrations: [parents, rebuilt, added, { ...broken, name: '0004_broken' }] });
    expect(await failing.dryRunMigrations()).toMatchObject({
      pending: ['0004_broken'],
      tried: [],
      failure: {
        reason: 'migration_failed',
        message: expect.stringContaining('0004_broken would fail (this migration is wrong)') as string,
      },
    });
    expect(readdirSync(test.dataDir).filter((file) => file.startsWith('migration-trial'))).toEqual([]);
    await failing.close();
  });

  it('reject a schema that is newer than the program', async () => {
    const newer = await reopen([parents, rebuilt]);
    const { copy = '' } = await newer.migrate();
    await newer.db.knex('parents').update({ name: 'later' });
    await newer.close();
    const refused = {
      kind: 'conflict',
      reason: 'schema_version_unsupported',
      message: expect.stringContaining('0002_rebuilt') as string,
    };
    await expect(reopen([parents])).rejects.toMatchObject(refused);
    await expect(test.database.migrate()).rejects.toMatchObject(refused);
    await expect(test.database.migrateDown('')).rejects.toMatchObject(refused);
    await expect(test.database.dryRunMigrations()).rejects.toMatchObject(refused);
    if (name === 'postgres') return;
    await expect(reopen([parents])).rejects.toThrow(
      `go back with this version: plantroom restore ${copy} --data-dir ${test.dataDir};`,
    );
  });

  it('report which version of the program created a newer schema', async () => {
    const settings: Migration = {
      name: '0002_settings',
      up: async (knex) => void (await knex.raw('create table settings (name text primary key, value text)')),
      down: async () => {},
    };
    const newer = await reopen([parents, settings]);
    await newer.migrate();
    await newer.close();
    await expect(reopen([parents])).rejects.toThrow(
      `newer version of this program (${version}; it has 0002_settings): run that version, or `,
    );
  });

  it('run once when two processes migrate at the same time', async () => {
    const two = [await reopen([parents, rebuilt, added]), await reopen([parents, rebuilt, added])];
    const reports = await Promise.all(two.map(async (database) => await database.migrate()));
    expect(reports.flatMap((report) => report.applied).toSorted()).toEqual(['0002_rebuilt', '0003_added']);
    await Promise.all(two.map(async (database) => await database.close()));
  });

  it('list the known migrations when an unknown one is requested', async () => {
    await expect(test.database.migrateDown('0009_none')).rejects.toMatchObject({
      reason: 'migration_not_found',
      message: expect.stringContaining('0001_parents') as string,
    });
  });

  it('are rolled back when the disk is full, and need space for the copy', async () => {
    if (name === 'postgres')
      return await expect(test.database.dryRunMigrations()).resolves.toMatchObject({ space: undefined });
    const large: Migration = {
      ...added,
      up: async (knex) => {
        await knex.raw('pragma max_page_count = 12');
        await knex('parents').insert({ id: 'large', name: 'x'.repeat(1_000_000), rank: 1 });
      },
    };
    const database = await reopen([parents, rebuilt, large]);
    await expect(database.migrate()).rejects.toMatchObject({
      kind: 'unavailable',
      reason: 'migration_failed',
      message: expect.stringContaining(
        'Free some space and start again; "plantroom migrate --dry-run" shows how much is needed',
      ) as string,
    });
    await expectUntouched(database);
    await database.close();
  });

  it('copy a SQLite file first, and keep the newest copy of a schema', async () => {
    const database = await reopen([parents, rebuilt, added]);
    const backups = join(test.dataDir, 'backups');
    expect(existsSync(backups)).toBe(false);
    const killed = join(test.dataDir, `migration-trial-${process.pid}`); // of a process that was killed
    mkdirSync(killed);
    const copies: (string | undefined)[] = [];
    for (let round = 0; round < 5; round++) {
      copies.push((await database.migrate()).copy);
      await database.migrateDown('0001_parents');
    }
    const copiesBefore = readdirSync(test.dataDir).includes('backups') ? readdirSync(backups) : [];
    expect(await database.migrate(false)).toMatchObject({ applied: ['0002_rebuilt', '0003_added'], copy: undefined });
    if (name === 'sqlite') expect(readdirSync(backups)).toEqual(copiesBefore);
    expect(existsSync(killed)).toBe(name === 'postgres');
    await database.close();
    if (name === 'sqlite') {
      expect(
        readdirSync(backups)
          .map((file) => join(backups, file))
          .toSorted(),
      ).toEqual(copies.slice(-1));
    } else {
      expect(copies).toEqual(Array(5).fill(undefined));
      expect(existsSync(backups)).toBe(false);
    }
  });
});

it('keep a copy that was just made, and one of each of the two schemas before, for any file times', async () => {
  const [sqlite] = engines() as [ReturnType<typeof engines>[0]];
  const test = await sqlite.createEmpty([parents]);
  await test.database.migrate();
  const backups = join(test.dataDir, 'backups');
  mkdirSync(backups);
  const placeCopy = (time: string, schema: string): string => {
    const name = `before-migration-${time}T00-00-00.000Z-${schema}.db`;
    writeFileSync(join(backups, name), '');
    return name;
  };
  const kept = [placeCopy('2031-01-02', '0000_far'), placeCopy('2031-01-03', '0000_middle')];
  for (const [time, schema] of [
    ['2031-01-01', '0000_far'],
    ['2031-01-09', '0000_before'],
    ['2031-01-09', '0001_parents'],
  ] as const)
    placeCopy(time, schema);
  const database = await test.open({ migrations: [parents, rebuilt] });
  const { copy = '' } = await database.migrate();
  await database.close();
  expect(readdirSync(backups).toSorted()).toEqual([...kept, basename(copy)].toSorted());
  await expect(test.open({ migrations: [parents] })).rejects.toThrow(copy);
  await test.drop();
});

/** Expects the database to be as `beforeEach` left it. */
async function expectUntouched(database: Database): Promise<void> {
  expect((await database.describe()).schema).toBe('0001_parents');
  expect(await database.db.knex.schema.hasTable('left_over')).toBe(false);
  expect(await database.db.knex('parents').orderBy('id')).toEqual([
    { id: 'p1', name: 'one' },
    { id: 'p2', name: 'two' },
  ]);
  expect(await database.db.knex('children').orderBy('id')).toEqual([
    { id: 'c1', parent_id: 'p1' },
    { id: 'c2', parent_id: 'p2' },
  ]);
}

async function rejected(work: Promise<unknown>): Promise<Error> {
  const error: unknown = await work.catch((caught: unknown) => caught);
  if (error instanceof Error) return error;
  throw new Error('it was not rejected');
}

/** Applies a migration, and never finishes the one after it. */
const STUCK = `
  import { openDatabase } from './src/database';
  import { silentLogger } from './src/kernel/logger';
  const parents = { name: '0001_parents', up: async () => {}, down: async () => {} };
  const whole = { ...parents, name: '0002_rebuilt', up: async (knex) => void (await knex.raw("update parents set name = 'whole'")) };
  const half = {
    ...parents,
    name: '0003_added',
    up: async (knex) => {
      await knex.raw('create table left_over (id integer)');
      await knex.raw("update parents set name = 'half'");
      process.stdout.write('in the middle');
      setInterval(() => {}, 1000);
      await new Promise(() => {});
    },
  };
  const [, , url, dataDir] = process.argv;
  void openDatabase({ url, dataDir, log: silentLogger, migrations: [parents, whole, half] }).then((database) => database.migrate());`;

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

  it('change existing rows, and restore them when undone', async () => {
    const released = MIGRATIONS.slice(0, 2);
    const test = await createEmpty(released);
    await test.database.migrate();
    await insertRows(test.database);
    const before = await getRows(test.database);
    const database = await test.open({ migrations: MIGRATIONS });
    for (let round = 0; round < 2; round++) {
      expect((await database.migrate()).applied).toEqual(MIGRATIONS.slice(2).map((migration) => migration.name));
      expect(await getRows(database)).toEqual(withNewColumns(before));
      const remembered = {
        organization_id: 'o',
        device_id: 'seen',
        command_id: 'k',
        trigger_key: 't',
        execution_id: 'e',
        params_hash: 'h',
        expires_at: 7 * 24 * HOUR + 1,
      };
      expect(await database.db.knex('execution_triggers')).toEqual([remembered]);
      const members = await database.db
        .knex('members')
        .orderBy(['organization_id', 'user_id'])
        .select<{ organization_id: string; user_id: string; role_id: string }[]>('*');
      expect(members.map((member) => [member.organization_id, member.user_id, member.role_id])).toEqual([
        ['o', 'manager', 'owner'],
        ['o', 'operator', 'operator'],
        ['o', 'reader', 'viewer'],
        ['o', 'software', 'admin'],
        ['q', 'reader', 'owner'],
      ]);
      await database.migrateDown(released.at(-1)?.name ?? '');
      expect(await getRows(database)).toEqual(before);
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
const key = {
  name: 'Key',
  prefix: 'plr_123456',
  scopes: '["devices:read"]',
  connection_ids: '[]',
  all_connections: 0,
  is_admin: 0,
  ...TIMES,
};

/** Lists keys from before there were members. Only those that are still valid make their users members. */
function listKeys(organization: string): (readonly [string, Row])[] {
  const held: readonly (readonly [string, readonly string[], Row?])[] = [
    ['gone', ['api-keys:write'], { revoked_at: 6 }],
    ['gone', ['organizations:write'], { expires_at: 7 }],
    ['reader', ['devices:read', 'telemetry:read']],
    ['operator', ['commands:write']],
    ['software', ['gateways:write'], { all_connections: 1 }],
    ['manager', ['devices:read']],
    ['manager', ['api-keys:write'], { created_at: 5 * HOUR + 9 }],
  ];
  return held.map(([owner, scopes, more], at) => [
    'api_keys',
    {
      ...key,
      organization_id: organization,
      id: `k${at}`,
      hash: `h${at}`,
      owner_user_id: owner,
      scopes: JSON.stringify(scopes),
      ...more,
    },
  ]);
}

/** Inserts a row into each table that a later migration changes, and into those that they refer to. */
async function insertRows(database: Database): Promise<void> {
  const own = { organization_id: 'o', ...TIMES };
  const rows: readonly (readonly [string, Row])[] = [
    ['organizations', { id: 'o', name: 'One', name_folded: 'one', ...TIMES }],
    ...PEOPLE.map((id): readonly [string, Row] => ['users', { id, name: 'Person', email: '', ...TIMES }]),
    ...listKeys('o'),
    ['organizations', { id: 'q', name: 'Two', name_folded: 'two', ...TIMES }],
    ['api_keys', { ...key, organization_id: 'q', id: 'only', hash: 'only', owner_user_id: 'reader', revoked_at: 6 }],
    [
      'connections',
      {
        ...own,
        id: 'c',
        connector_id: 'gateway',
        name: 'C',
        name_folded: 'c',
        description: '',
        enabled: 1,
        configuration: '{"offlineAfter":30}',
        policy: '{}',
        revision: 3,
      },
    ],
    ['normalized_keys', { ...own, id: 'k', owner: 'o', name: 'Key', name_folded: 'key' }],
    [
      'sensor_templates',
      {
        ...own,
        id: 't',
        owner: 'o',
        key_name_id: 'k',
        sensor_type: 'x',
        value_type: 'number',
        unit_measurement_id: '',
        description: '',
      },
    ],
    [
      'digital_devices',
      {
        ...own,
        id: 'seen',
        name: 'Seen',
        name_folded: 'seen',
        last_seen_at: 9 * HOUR - 1,
        interval_unit: 'hour',
        interval_value: 6,
        revision: 2,
      },
    ],
    ['digital_devices', { ...own, id: 'never', name: 'Never', name_folded: 'never', revision: 1 }],
    [
      'physical_devices',
      {
        ...own,
        id: 'p',
        device_id: 'seen',
        connection_id: 'c',
        client_device_id: 'x',
        configuration: '{}',
        uplink_gaps: '[60000]',
      },
    ],
    ['sensors', { ...own, id: 's', device_id: 'seen', sensor_template_id: 't', position: 0 }],
    [
      'latest_readings',
      { sensor_id: 's', organization_id: 'o', physical_device_id: 'p', source_path: 'a', value: '1', received_at: 7.5 },
    ],
    ['executions', execution],
    ['uplinks_seen', { connection_id: 'c', uplink_id: 'u', seen_at: 7 }],
  ];
  for (const [table, row] of rows) await database.db.knex(table).insert(row);
}

type Row = Readonly<Record<string, unknown>>;
const CHANGED = [
  'organizations',
  'users',
  'api_keys',
  'normalized_keys',
  'sensor_templates',
  'connections',
  'digital_devices',
  'physical_devices',
  'sensors',
  'latest_readings',
  'executions',
  'uplinks_seen',
] as const;
type Rows = Record<(typeof CHANGED)[number], Row[]>;

async function getRows({ db }: Database): Promise<Rows> {
  const entries: [string, Row[]][] = [];
  for (const table of CHANGED)
    entries.push([
      table,
      await db
        .knex<Row>(table)
        .select('*')
        .orderBy(table === 'latest_readings' ? 'sensor_id' : table === 'uplinks_seen' ? 'uplink_id' : 'id'),
    ]);
  return Object.fromEntries(entries) as Rows;
}

/** The keys of users who are owners after the migrations have made members of them. */
const OWNER_KEYS = ['k5', 'k6', 'only'];

/** Returns the rows as the migrations after the second one change them. */
function withNewColumns(rows: Rows): Rows {
  const add = (table: keyof Rows, columns: Row): Row[] => rows[table].map((row) => ({ ...row, ...columns }));
  return {
    sensors: rows.sensors,
    organizations: add('organizations', {
      reading_retention_days: 365,
      thin_readings_after_days: null,
      revision: 1,
      deleted_at: null,
      emptied_at: null,
    }),
    users: add('users', { removed_at: null, revision: 1 }),
    api_keys: add('api_keys', {
      note: '',
      restrictions: '',
      allowed_addresses: '[]',
      rotated_from: null,
      revision: 1,
    }).map((row) => ({ ...row, can_act_as_owner: OWNER_KEYS.includes(String(row['id'])) ? 1 : 0 })),
    normalized_keys: add('normalized_keys', { revision: 1 }),
    sensor_templates: add('sensor_templates', { revision: 1 }),
    connections: add('connections', { secrets: '' }),
    digital_devices: rows.digital_devices.map((row) => ({ ...row, seen_hour: row['id'] === 'seen' ? 8 : 5 })),
    physical_devices: add('physical_devices', {
      reported_class: null,
      profile_id: null,
      network_decodes: null,
      uplink_failure: null,
      decoder_warnings: null,
    }),
    latest_readings: add('latest_readings', { buffered: 0, f_cnt: null, dev_addr: null, time_source: null }),
    executions: rows.executions.map(({ trigger_key: _key, trigger_hash: _hash, ...row }) => ({
      ...row,
      delivered_f_cnt: null,
      delivered_dev_addr: null,
      detail: 'device_removed',
    })),
    uplinks_seen: add('uplinks_seen', { digest: null }),
  };
}

const execution: Row = {
  id: 'e',
  organization_id: 'o',
  device_id: 'seen',
  physical_device_id: 'p',
  connection_id: 'c',
  command_id: 'k',
  command_name: 'On',
  command_revision: 1,
  trigger_id: 't',
  trigger_key: 't',
  trigger_hash: 'h',
  params: '{}',
  params_hash: 'h',
  strategy: 'no_verification',
  expected: '[]',
  confirmed: 0,
  topic: '',
  policy: '{}',
  state: 'delivered',
  final: 0,
  detail: 'target_removed',
  detail_message: '',
  attempts: 1,
  holds_slot: 1,
  version: 4,
  queue_order: 1,
  enqueued_at: 1,
  delivered_at: 5,
  updated_at: 5,
  event_count: 2,
  queries_sent: 0,
};
