import { setImmediate as turn } from 'node:timers/promises';
import { type Database, type Db, UnitOfWork, uniqueOr } from '../../src/database';
import { DomainError } from '../../src/kernel/errors';
import { engines, type TestDatabase } from '../support/engines';

const INSERT = { name: 'test.insert_setting', sql: () => 'insert into settings (name, value) values (?, ?)' };
const NAMES = { name: 'test.names', sql: () => 'select name from settings order by name' };

async function insert(db: Db, name: string): Promise<void> {
  await db.all(INSERT, [name, 'v']);
}

async function names(db: Db): Promise<string[]> {
  return (await db.all<{ name: string }>(NAMES, [])).map((row) => row.name);
}

describe.each(engines())('transactions on $name', ({ createDatabase }) => {
  let test: TestDatabase;
  let database: Database;
  beforeEach(async () => {
    test = await createDatabase();
    database = test.database;
  });
  afterEach(async () => await test.drop());

  it('keeps what was done and hands back the result', async () => {
    const result = await database.transaction(async (db) => {
      await insert(db, 'hot');
      await db.knex('settings').insert({ name: 'built', value: 'v' });
      return (await names(db)).length;
    });
    expect(result).toBe(2);
    expect(await names(database.db)).toEqual(['built', 'hot']);
  });

  it('undoes everything when the work throws, and throws the same', async () => {
    const thrown = new DomainError('conflict', 'not_now', 'not now');
    const work = database.transaction(async (db) => {
      await insert(db, 'a');
      throw thrown;
    });
    await expect(work).rejects.toBe(thrown);
    expect(await names(database.db)).toEqual([]);
  });

  it('runs afterCommit in order, once the rows can be seen, before it resolves', async () => {
    const seen: string[] = [];
    let visible: Promise<string[]> | undefined;
    await database.transaction(async (db) => {
      db.afterCommit(() => seen.push('first'));
      await insert(db, 'a');
      db.afterCommit(() => {
        seen.push('second');
        visible = names(database.db);
      });
      expect(seen).toEqual([]);
    });
    expect(seen).toEqual(['first', 'second']);
    expect(await visible).toEqual(['a']);
  });

  it('never runs afterCommit of a transaction that was rolled back', async () => {
    const seen: string[] = [];
    const work = database.transaction(async (db) => {
      db.afterCommit(() => seen.push('never'));
      await insert(db, 'a');
      throw new Error('no');
    });
    await expect(work).rejects.toThrow('no');
    expect(seen).toEqual([]);
  });

  it('stands by a commit although an afterCommit action throws', async () => {
    const seen: string[] = [];
    await database.transaction(async (db) => {
      db.afterCommit(() => {
        throw new Error('broken hook');
      });
      db.afterCommit(() => seen.push('next'));
      await insert(db, 'a');
    });
    expect(seen).toEqual(['next']);
    expect(await names(database.db)).toEqual(['a']);
  });

  it('runs afterCommit at once outside a transaction', () => {
    const seen: string[] = [];
    database.db.afterCommit(() => seen.push('now'));
    expect(seen).toEqual(['now']);
  });

  it('does not let one that throws hurt its neighbours', async () => {
    const committed: number[] = [];
    await insert(database.db, 'taken');
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, async (_, at) =>
        await database.transaction(async (db) => {
          await insert(db, `row-${String(at).padStart(2, '0')}`);
          db.afterCommit(() => committed.push(at));
          if (at % 7 === 3) throw new Error(`number ${at}`);
          if (at % 7 === 5) await insert(db, 'taken');
        }),
      ),
    );
    const kept = Array.from({ length: 50 }, (_, at) => at).filter((at) => ![3, 5].includes(at % 7));
    expect(outcomes.flatMap((outcome, at) => (outcome.status === 'fulfilled' ? [at] : []))).toEqual(kept);
    expect(committed.toSorted((a, b) => a - b)).toEqual(kept);
    expect(await names(database.db)).toEqual([...kept.map((at) => `row-${String(at).padStart(2, '0')}`), 'taken']);
  });

  it('shows a reader outside only what is committed, and does not make it wait', async () => {
    await insert(database.db, 'before');
    await database.transaction(async (db) => {
      await insert(db, 'inside');
      await turn();
      expect(await names(db)).toEqual(['before', 'inside']);
      expect(await names(database.db)).toEqual(['before']);
      expect(await database.db.knex('settings').pluck('name')).toEqual(['before']);
    });
    expect(await names(database.db)).toEqual(['before', 'inside']);
  });

  it('writes single statements outside a transaction while others write', async () => {
    await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        if (at % 2) return await insert(database.db, `hot-${at}`);
        if (at % 4) return void (await database.db.knex('settings').insert({ name: `built-${at}`, value: 'v' }));
        return await database.transaction(async (db) => await insert(db, `in-${at}`));
      }),
    );
    expect(await names(database.db)).toHaveLength(20);
  });

  it('answers how many rows a statement changed, and what it returns', async () => {
    await insert(database.db, 'a');
    const { knex } = database.db;
    expect(await knex('settings').where({ name: 'a' }).update({ value: 'w' })).toBe(1);
    expect(await knex('settings').where({ name: 'none' }).update({ value: 'w' })).toBe(0);
    expect(await knex('settings').insert({ name: 'b', value: 'v' }).returning('name')).toEqual([{ name: 'b' }]);
    expect(await knex('settings').where({ name: 'b' }).delete()).toBe(1);
    expect(await knex('settings').insert({ name: 'a', value: 'v' }).onConflict('name').ignore()).toBeDefined();
    expect(await knex('settings').where({ name: 'a' }).first('value')).toEqual({ value: 'w' });
  });

  it('turns the refusal of a unique index into our error, and goes on in a savepoint', async () => {
    const taken = new DomainError('already_exists', 'name_taken', 'the name is taken');
    await insert(database.db, 'a');
    const { dialect } = database;
    await expect(uniqueOr(dialect, () => taken, async () => await insert(database.db, 'a'))).rejects.toBe(taken);
    const built = async (): Promise<unknown> => await database.db.knex('settings').insert({ name: 'a', value: 'v' });
    await expect(uniqueOr(dialect, () => taken, built)).rejects.toBe(taken);
    await expect(uniqueOr(dialect, () => taken, async () => await Promise.reject(new Error('other')))).rejects.toThrow('other');
    await database.transaction(async (db) => {
      const refused = db.knex.transaction(async (savepoint) => {
        await savepoint('settings').insert({ name: 'undone', value: 'v' });
        await savepoint('settings').insert({ name: 'a', value: 'v' });
      });
      await expect(refused).rejects.toThrow(/unique/i);
      await db.knex.transaction(async (savepoint) => void (await savepoint('settings').insert({ name: 'kept', value: 'v' })));
      await insert(db, 'b');
    });
    expect(await names(database.db)).toEqual(['a', 'b', 'kept']);
  });

  it('knows the refusal of a foreign key, and keeps values out of the message', async () => {
    const row = { organization_id: 'nobody-has-this-id', name: 'x', value: 1 };
    const error: unknown = await database.db.knex('organization_counters').insert(row).catch((caught: unknown) => caught);
    expect(database.dialect.isForeignKeyViolation(error)).toBe(true);
    expect(database.dialect.isUniqueViolation(error)).toBe(false);
    expect((error as Error).message).not.toContain('nobody-has-this-id');
  });

  it('refuses the repositories of a transaction that is over', async () => {
    let kept: Db | undefined;
    await database.transaction(async (db) => {
      await insert(db, 'a');
      kept = db;
    });
    await expect(kept?.knex('settings').insert({ name: 'late', value: 'v' })).rejects.toThrow(/over|complete/);
    await expect(insert(kept as Db, 'late')).rejects.toThrow(/over|complete/);
    expect(await names(database.db)).toEqual(['a']);
  });

  it('binds the repositories of a room to the plain connection or to one transaction', async () => {
    const uow = new UnitOfWork(database, (db) => ({ settings: { add: async (name: string) => await insert(db, name), names: async () => await names(db) } }));
    await uow.repos.settings.add('plain');
    await uow.transaction(async ({ settings }, db) => {
      await settings.add('inside');
      expect(await names(db)).toEqual(['inside', 'plain']);
      expect(await uow.repos.settings.names()).toEqual(['plain']);
    });
    expect(await uow.repos.settings.names()).toEqual(['inside', 'plain']);
  });

  it('finishes the transactions that wait before it closes', async () => {
    const waiting = Array.from({ length: 5 }, async (_, at) => await database.transaction(async (db) => await insert(db, `row-${at}`)));
    await Promise.all(waiting);
    const other = await test.open();
    const last = other.transaction(async (db) => await insert(db, 'last'));
    await Promise.all([last, other.close()]);
    expect(await names(database.db)).toHaveLength(6);
  });
});
