import { engines, type TestDatabase } from '../support/engines';

describe.each(engines())('statements on $name', ({ createDatabase }) => {
  let test: TestDatabase;
  beforeAll(async () => {
    test = await createDatabase();
    await test.database.db.knex('organizations').insert([
      { id: 'o1', name: 'Eins', name_folded: 'eins', created_at: 1_790_000_000_000, updated_at: 2 ** 53 - 1 },
      { id: 'o2', name: 'Zwei', name_folded: 'zwei', created_at: 3, updated_at: 4 },
    ]);
  });
  afterAll(async () => await test.drop());

  it('keeps a statement prepared and reuses it with other values, inside and outside of a transaction', async () => {
    const statement = {
      name: 'test.organization',
      sql: () => 'select name, created_at, updated_at from organizations where id = ? and created_at > ?',
    };
    const { db } = test.database;
    expect(await db.all(statement, ['o1', 0])).toEqual([
      { name: 'Eins', created_at: 1_790_000_000_000, updated_at: 2 ** 53 - 1 },
    ]);
    expect(await db.all(statement, ['o2', 2])).toEqual([{ name: 'Zwei', created_at: 3, updated_at: 4 }]);
    expect(await db.all(statement, ['o2', 3])).toEqual([]);
    await test.database.transaction(async (inside) => {
      await inside.knex('organizations').where({ id: 'o2' }).update({ created_at: 5 });
      expect(await inside.all(statement, ['o2', 3])).toHaveLength(1);
      expect(await db.all(statement, ['o2', 3])).toEqual([]);
    });
    expect(await db.all(statement, ['o2', 3])).toHaveLength(1);
  });

  it('returns numbers for counts and sums', async () => {
    const { knex } = test.database.db;
    expect(await knex('organizations').count({ total: '*' })).toEqual([{ total: 2 }]);
    expect(await knex('organizations').where('id', 'o2').sum({ sum: 'updated_at' })).toEqual([{ sum: 4 }]);
  });

  it('keeps bytes, null and JSON unchanged', async () => {
    const statement = {
      name: 'test.values',
      sql: () => 'select cast(? as text) as absent, cast(? as text) as text, \'{"a":[1,2]}\' as json',
    };
    expect(await test.database.db.all(statement, [null, 'Öl'])).toEqual([
      { absent: null, text: 'Öl', json: '{"a":[1,2]}' },
    ]);
    await test.database.db.knex.schema.createTable('bytes', (t) => void t.binary('b'));
    await test.database.db.all({ name: 'test.put_bytes', sql: () => 'insert into bytes (b) values (?)' }, [
      new Uint8Array([0, 255, 7]),
    ]);
    const [row] = await test.database.db.all<{ b: Uint8Array }>(
      { name: 'test.bytes', sql: () => 'select b from bytes' },
      [],
    );
    expect([...(row?.b ?? [])]).toEqual([0, 255, 7]);
  });

  it('puts rows into one JSON document', async () => {
    const { db, dialect } = test.database;
    const counters = dialect.jsonArray(
      dialect.jsonObject({ name: 'c.name', value: 'c.value' }),
      'organization_counters c where c.organization_id = o.id',
      'c.value desc',
    );
    const statement = {
      name: 'test.document',
      sql: () =>
        `select ${dialect.jsonObject({ id: 'o.id', extra: dialect.jsonText(`'{"deep":[true,null]}'`), counters: dialect.jsonText(counters) })} as document from organizations o order by o.id`,
    };
    await db.knex('organization_counters').insert([
      { organization_id: 'o1', name: 'small "quoted"', value: 1 },
      { organization_id: 'o1', name: 'großer', value: 2 ** 40 },
    ]);
    const documents = (await db.all<{ document: string }>(statement, [])).map(
      (row) => JSON.parse(row.document) as unknown,
    );
    expect(documents).toEqual([
      {
        id: 'o1',
        extra: { deep: [true, null] },
        counters: [
          { name: 'großer', value: 2 ** 40 },
          { name: 'small "quoted"', value: 1 },
        ],
      },
      { id: 'o2', extra: { deep: [true, null] }, counters: [] },
    ]);
  });

  it('survives far more different statements than it keeps', async () => {
    const { db } = test.database;
    for (let at = 0; at < 1200; at++) {
      const rows = await db.knex('organizations').whereRaw(`${at} = ${at}`).where('id', 'o1').select('id');
      if (rows.length !== 1) throw new Error(`statement ${at} went wrong`);
    }
    expect(await db.knex('organizations').pluck('id')).toHaveLength(2);
  });

  it('answers a ping, and describes itself without secrets', async () => {
    await expect(test.database.ping()).resolves.toBeUndefined();
    const description = await test.database.describe();
    expect(description).toMatchObject({
      engine: expect.stringMatching(/SQLite|PostgreSQL/) as string,
      schema: expect.stringMatching(/^\d{4}_/) as string,
      pending: [],
    });
    expect(description.location).not.toContain('@');
  });
});
