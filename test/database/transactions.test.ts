import { setImmediate as turn } from 'node:timers/promises';
import { type Database, type Db, UnitOfWork, onUniqueViolation } from '../../src/database';
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

describe.each(engines())('a transaction on $name', ({ createDatabase }) => {
  let test: TestDatabase;
  let database: Database;
  beforeEach(async () => {
    test = await createDatabase();
    database = test.database;
  });
  afterEach(async () => await test.drop());

  it('stores the changes and returns the result', async () => {
    const result = await database.transaction(async (db) => {
      await insert(db, 'hot');
      await db.knex('settings').insert({ name: 'built', value: 'v' });
      return (await names(db)).length;
    });
    expect(result).toBe(2);
    expect(await names(database.db)).toEqual(['built', 'hot']);
  });

  it('rolls back everything when the work throws, and throws the same error', async () => {
    const thrown = new DomainError('conflict', 'not_now', 'not now');
    const work = database.transaction(async (db) => {
      await insert(db, 'a');
      throw thrown;
    });
    await expect(work).rejects.toBe(thrown);
    expect(await names(database.db)).toEqual([]);
  });

  it('runs afterCommit in order, once the rows are visible, before it resolves', async () => {
    const steps: string[] = [];
    let visible: Promise<string[]> | undefined;
    await database.transaction(async (db) => {
      db.afterCommit(() => steps.push('first'));
      await insert(db, 'a');
      db.afterCommit(() => {
        steps.push('second');
        visible = names(database.db);
      });
      expect(steps).toEqual([]);
    });
    expect(steps).toEqual(['first', 'second']);
    expect(await visible).toEqual(['a']);
  });

  it('never runs afterCommit when it was rolled back', async () => {
    const steps: string[] = [];
    const work = database.transaction(async (db) => {
      db.afterCommit(() => steps.push('never'));
      await insert(db, 'a');
      throw new Error('no');
    });
    await expect(work).rejects.toThrow('no');
    expect(steps).toEqual([]);
  });

  it('stays committed although an afterCommit action throws', async () => {
    const steps: string[] = [];
    await database.transaction(async (db) => {
      db.afterCommit(() => {
        throw new Error('broken hook');
      });
      db.afterCommit(() => steps.push('next'));
      await insert(db, 'a');
    });
    expect(steps).toEqual(['next']);
    expect(await names(database.db)).toEqual(['a']);
  });

  it('is not needed for afterCommit, which then runs at once', () => {
    const steps: string[] = [];
    database.db.afterCommit(() => steps.push('now'));
    expect(steps).toEqual(['now']);
  });

  it('does not affect its neighbours when it throws', async () => {
    const committed: number[] = [];
    await insert(database.db, 'taken');
    const outcomes = await Promise.allSettled(
      Array.from(
        { length: 50 },
        async (_, at) =>
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

  it('shows only committed rows to a reader outside, and does not block the reader', async () => {
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

  it('allows single statements outside of it while others write', async () => {
    await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        if (at % 2) return await insert(database.db, `hot-${at}`);
        if (at % 4) return void (await database.db.knex('settings').insert({ name: `built-${at}`, value: 'v' }));
        return await database.transaction(async (db) => await insert(db, `in-${at}`));
      }),
    );
    expect(await names(database.db)).toHaveLength(20);
  });

  it('returns how many rows a statement changed, and its returned rows', async () => {
    await insert(database.db, 'a');
    const { knex } = database.db;
    expect(await knex('settings').where({ name: 'a' }).update({ value: 'w' })).toBe(1);
    expect(await knex('settings').where({ name: 'none' }).update({ value: 'w' })).toBe(0);
    expect(await knex('settings').insert({ name: 'b', value: 'v' }).returning('name')).toEqual([{ name: 'b' }]);
    expect(await knex('settings').where({ name: 'b' }).delete()).toBe(1);
    expect(await knex('settings').insert({ name: 'a', value: 'v' }).onConflict('name').ignore()).toBeDefined();
    expect(await knex('settings').where({ name: 'a' }).first('value')).toEqual({ value: 'w' });
  });

  it('converts the error of a unique index, and continues in a savepoint', async () => {
    const taken = new DomainError('already_exists', 'name_taken', 'the name is taken');
    await insert(database.db, 'a');
    const { dialect } = database;
    await expect(
      onUniqueViolation(
        dialect,
        () => taken,
        async () => await insert(database.db, 'a'),
      ),
    ).rejects.toBe(taken);
    const built = async (): Promise<unknown> => await database.db.knex('settings').insert({ name: 'a', value: 'v' });
    await expect(onUniqueViolation(dialect, () => taken, built)).rejects.toBe(taken);
    await expect(
      onUniqueViolation(
        dialect,
        () => taken,
        async () => await Promise.reject(new Error('other')),
      ),
    ).rejects.toThrow('other');
    await database.transaction(async (db) => {
      const refused = db.knex.transaction(async (savepoint) => {
        await savepoint('settings').insert({ name: 'undone', value: 'v' });
        await savepoint('settings').insert({ name: 'a', value: 'v' });
      });
      await expect(refused).rejects.toThrow(/unique/i);
      await db.knex.transaction(
        async (savepoint) => void (await savepoint('settings').insert({ name: 'kept', value: 'v' })),
      );
      await insert(db, 'b');
    });
    expect(await names(database.db)).toEqual(['a', 'b', 'kept']);
  });

  it('detects the error of a foreign key, and keeps values out of the message', async () => {
    const row = { organization_id: 'nobody-has-this-id', name: 'x', value: 1 };
    const error: unknown = await database.db
      .knex('organization_counters')
      .insert(row)
      .catch((caught: unknown) => caught);
    expect(database.dialect.isForeignKeyViolation(error)).toBe(true);
    expect(database.dialect.isUniqueViolation(error)).toBe(false);
    expect((error as Error).message).not.toContain('nobody-has-this-id');
  });

  it('lets nested transactions and statements join, and stores all of it or nothing', async () => {
    const steps: string[] = [];
    const uow = new UnitOfWork(database, (db) => ({
      add: async (name: string) => await insert(db, name),
      names: async () => await names(db),
    }));
    const work = async (): Promise<void> => {
      await uow.repos.add('plain');
      await uow.transaction(async ({ add }, db) => {
        await add('inside');
        db.afterCommit(() => steps.push('after'));
      });
      await database.db.knex('settings').insert({ name: 'built', value: 'v' });
      expect(await uow.repos.names()).toEqual(['built', 'inside', 'plain']);
      expect(steps).toEqual([]);
    };
    const failing = database.joinedTransaction(async () => {
      await work();
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await names(database.db)).toEqual([]);
    await database.joinedTransaction(work);
    expect(await names(database.db)).toEqual(['built', 'inside', 'plain']);
    expect(steps).toEqual(['after']);
  });

  it('fails completely when a joined one has failed, and lets nothing join a finished or foreign one', async () => {
    let late: Promise<void> | undefined;
    const over = Promise.withResolvers<void>();
    const work = database.joinedTransaction(async () => {
      late = over.promise.then(async () => await insert(database.db, 'late'));
      await database
        .transaction(async (db) => {
          await insert(db, 'half');
          throw new Error('half');
        })
        .catch(() => {}); // the work continues
    });
    const neighbour = database.transaction(async (db) => await insert(db, 'neighbour'));
    await expect(work).rejects.toThrow('half');
    over.resolve();
    await Promise.all([late, neighbour]);
    expect(await names(database.db)).toEqual(['late', 'neighbour']);
  });

  it('rejects its repositories after it has finished', async () => {
    let kept: Db | undefined;
    await database.transaction(async (db) => {
      await insert(db, 'a');
      kept = db;
    });
    await expect(kept?.knex('settings').insert({ name: 'late', value: 'v' })).rejects.toThrow(/over|complete/);
    await expect(insert(kept as Db, 'late')).rejects.toThrow(/over|complete/);
    expect(await names(database.db)).toEqual(['a']);
  });

  it('binds the repositories of a module to the plain connection or to itself', async () => {
    const uow = new UnitOfWork(database, (db) => ({
      settings: { add: async (name: string) => await insert(db, name), names: async () => await names(db) },
    }));
    await uow.repos.settings.add('plain');
    await uow.transaction(async ({ settings }, db) => {
      await settings.add('inside');
      expect(await names(db)).toEqual(['inside', 'plain']);
      expect(await uow.repos.settings.names()).toEqual(['plain']);
    });
    expect(await uow.repos.settings.names()).toEqual(['inside', 'plain']);
  });

  it('finishes before the database closes, if it was waiting', async () => {
    const waiting = Array.from(
      { length: 5 },
      async (_, at) => await database.transaction(async (db) => await insert(db, `row-${at}`)),
    );
    await Promise.all(waiting);
    const other = await test.open();
    const last = other.transaction(async (db) => await insert(db, 'last'));
    await Promise.all([last, other.close()]);
    expect(await names(database.db)).toHaveLength(6);
  });
});
