import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import BetterSqlite3 from 'better-sqlite3';
import { GatewayError, type GatewayStore, sqliteStore } from '../../../src/client/gateway';
import { SQL, STORE_VERSION } from '../../../src/client/gateway/store/sqliteSchema';
import { acknowledge, forget, IDENTITY, keep, newFile, removeFiles, thrownBy, uplink } from './stores';

describe('the file of a store', () => {
  let file: string;
  let store: GatewayStore | undefined;

  beforeEach(() => {
    file = newFile();
  });

  afterEach(() => {
    store?.close();
    store = undefined;
    removeFiles();
  });

  function opened(): GatewayStore {
    store = sqliteStore(file);
    store.open(IDENTITY);
    return store;
  }

  /** A store with something in it, closed. */
  function filled(): void {
    const before = opened();
    before.apply([keep('e1', 'started'), ...Array.from({ length: 200 }, (_, at) => uplink(`u${at}`, 1000))]);
    before.close();
  }

  /** What opening it says. */
  function refusal(): GatewayError {
    const error = thrownBy(opened);
    expect(error).toBeInstanceOf(GatewayError);
    return error;
  }

  function change(work: (database: BetterSqlite3.Database) => void): void {
    const database = new BetterSqlite3(file);
    work(database);
    database.close();
  }

  function overwrite(at: number, bytes: Buffer): void {
    const content = readFileSync(file);
    bytes.copy(content, at);
    writeFileSync(file, content);
  }

  it('is readable by its user alone, as is its log', () => {
    opened().apply([uplink('u1')]);
    expect([file, `${file}-wal`].map((name) => statSync(name).mode & 0o777)).toEqual([0o600, 0o600]);
    expect([`${file}-journal`, `${file}-shm`].filter((name) => existsSync(name))).toEqual([]);
  });

  it('waits for the disk with every change, and keeps a bounded log', () => {
    const kept = opened();
    for (let at = 0; at < 100; at += 1) {
      kept.apply([uplink(`a${at}`, 60_000), uplink(`b${at}`, 60_000), uplink(`c${at}`, 60_000)]);
      kept.apply([forget(`a${at}`), forget(`b${at}`), forget(`c${at}`)]);
    }
    expect(statSync(`${file}-wal`).size).toBeLessThan(9 * 1024 * 1024);
    expect(statSync(file).size).toBeLessThan(2 * 1024 * 1024); // 18 MB went through
  });

  it('gives the disk back what a long outage took', () => {
    const kept = opened();
    const ids = Array.from({ length: 600 }, (_, at) => `u${at}`);
    kept.apply(ids.map((id) => uplink(id, 50_000)));
    kept.close();
    const large = statSync(file).size;
    kept.open(IDENTITY);
    for (const id of ids) kept.apply([forget(id)]);
    kept.close();
    expect(large).toBeGreaterThan(30_000_000);
    expect(statSync(file).size).toBeLessThan(15_000_000);
  });

  it('opens quickly and reads in little memory when a hundred thousand uplinks wait', () => {
    const kept = opened();
    for (let batch = 0; batch < 100; batch += 1) kept.apply(Array.from({ length: 1000 }, (_, at) => uplink(`u${batch}-${at}`, 600)));
    kept.close();
    const before = process.memoryUsage().rss;
    const start = performance.now();
    kept.open(IDENTITY);
    const openedIn = performance.now() - start;
    let read = 0;
    for (let page = kept.uplinksAfter(0, 500); page.length > 0; page = kept.uplinksAfter(page.at(-1)?.position ?? 0, 500)) read += page.length;
    expect([kept.uplinkCount, read]).toEqual([100_000, 100_000]);
    expect(openedIn).toBeLessThan(2000);
    expect(process.memoryUsage().rss - before).toBeLessThan(50 * 1024 * 1024); // the file has 70 MB
  });

  it('finds everything by an index', () => {
    filled();
    change((database) => {
      const planOf = (sql: string) => (database.prepare(`explain query plan ${sql.replaceAll(/\$\w+/g, '1').replaceAll('?', '1')}`).all() as { detail: string }[]).map(({ detail }) => detail).join('; ');
      for (const name of ['findCommand', 'findAcknowledged', 'uplinksAfter', 'removeCommand', 'removeUplink', 'forgetAcknowledged', 'acknowledgeCommand'] as const) {
        expect(`${name}: ${planOf(SQL[name])}`).toMatch(/: SEARCH \w+ USING (INTEGER PRIMARY KEY|INDEX|COVERING INDEX)[^;]*$/);
      }
      expect(planOf(SQL.keepCommand)).toContain('SEARCH acknowledged_commands USING COVERING INDEX');
      expect(planOf(SQL.openCommands)).toBe('SCAN commands');
      expect(planOf(SQL.counts)).toContain('SCAN uplinks USING COVERING INDEX');
    });
  });

  it('is refused to a second user of the process, whose attempt takes nothing from the first', () => {
    const first = opened();
    expect([refusal().reason, refusal().message]).toEqual(['store_in_use', `the store ${file} is used by another gateway; stop it, or give this one a store of its own`]);
    first.apply([uplink('u1')]);
    expect(refusal().reason).toBe('store_in_use');
    first.close();
    expect(opened().uplinkCount).toBe(1);
  });

  it('says what is wrong with its place', () => {
    const inFolder = (name: string) => thrownBy(() => sqliteStore({ file: join(dirname(file), name) }).open(IDENTITY));
    expect(inFolder('none/gateway.db')).toMatchObject({ reason: 'store_unusable', message: expect.stringContaining('the folder of the store') });
    mkdirSync(join(dirname(file), 'folder'));
    expect(inFolder('folder')).toMatchObject({ reason: 'store_unusable', message: expect.stringContaining('is no file') });
  });

  it('says so where machine code does not fit', () => {
    const noCode = join(dirname(file), 'engine.node');
    writeFileSync(noCode, 'no machine code');
    const error = thrownBy(() => sqliteStore({ file, nativeBinding: noCode }).open(IDENTITY));
    expect(error).toMatchObject({ reason: 'store_unusable', message: expect.stringMatching(/machine code of better-sqlite3 cannot be loaded \(.*npm rebuild better-sqlite3/) });
  });

  it('takes nothing any more once its file was removed or replaced', () => {
    const kept = opened();
    kept.apply([uplink('u1')]);
    copyFileSync(file, `${file}.copy`);
    rmSync(file);
    expect(thrownBy(() => kept.apply([uplink('u2')]))).toMatchObject({ reason: 'store_failed', message: expect.stringContaining('was removed or replaced') });
    copyFileSync(`${file}.copy`, file);
    expect(thrownBy(() => kept.apply([uplink('u2')])).reason).toBe('store_failed');
    expect(kept.uplinkCount).toBe(1);
  });

  describe('that is another', () => {
    it.each([
      ['JSON of the old simulator', '[{"executionId":"e1"}]', /is JSON, as the simulator kept it before 0\.2\.0/],
      ['text', 'a letter to somebody that is longer than a header', /is no store of a gateway/],
      ['zeros', '\0'.repeat(8192), /is no store of a gateway/],
    ])('%s is refused and left as it is', (_, content, message) => {
      writeFileSync(file, content);
      expect(refusal()).toMatchObject({ reason: 'store_of_another', message: expect.stringMatching(message) });
      expect(readFileSync(file, 'utf8')).toBe(content);
    });

    it('a database of another program is refused and left as it is', () => {
      change((database) => database.exec('create table notes (text text); insert into notes values (1)'));
      const before = readFileSync(file);
      expect(refusal()).toMatchObject({ reason: 'store_of_another', message: expect.stringContaining('is a database of another program') });
      expect(readFileSync(file).equals(before)).toBe(true);
    });

    it('a store of a later version is refused', () => {
      filled();
      change((database) => database.pragma(`user_version = ${STORE_VERSION + 1}`));
      expect(refusal()).toMatchObject({ reason: 'store_unusable', message: expect.stringContaining(`is of version ${STORE_VERSION + 1}, and this plantroom-client knows ${STORE_VERSION} at most`) });
    });
  });

  describe('that is damaged', () => {
    const damage: readonly (readonly [string, () => void])[] = [
      ['cut in the middle', () => truncateSync(file, Math.floor(statSync(file).size / 8192) * 4096)],
      ['cut within a page', () => truncateSync(file, statSync(file).size - 4096 - 1000)],
      ['with a page of zeros', () => overwrite(4096 * 3, Buffer.alloc(4096))],
      ['with a destroyed page', () => overwrite(4096 * 20 + 8, Buffer.alloc(2000, 0xa5))],
      ['with a destroyed header', () => overwrite(16, Buffer.alloc(60, 0xff))],
    ];

    it.each(damage)('%s is refused', (_, spoil) => {
      filled();
      spoil();
      const error = refusal();
      expect(error.reason).toBe('store_damaged');
      expect(error.message).toMatch(/is damaged: .*; move .* away and start again with a new store/);
    });

    it('emptied or gone, its log left over: nothing is begun anew in silence', () => {
      opened().apply([uplink('u1')]);
      copyFileSync(`${file}-wal`, `${file}.log`);
      store?.close();
      copyFileSync(`${file}.log`, `${file}-wal`);
      writeFileSync(file, '');
      expect(refusal()).toMatchObject({ reason: 'store_damaged', message: expect.stringContaining('it is empty, and its log') });
      rmSync(file);
      expect(refusal()).toMatchObject({ reason: 'store_damaged', message: expect.stringContaining('it is gone, and its log') });
    });

    it('while it is open: what reads it says so', () => {
      const before = opened();
      before.apply(Array.from({ length: 600 }, (_, at) => uplink(`u${at}`, 60_000))); // more than the engine keeps in memory
      before.close();
      const kept = opened();
      const database = readFileSync(file);
      database.fill(0xa5, 4096 * 20);
      writeFileSync(file, database);
      const damaged = thrownBy(() => {
        for (let position = 0, more = true; more; ) {
          const page = kept.uplinksAfter(position, 20);
          more = page.length > 0;
          position = page.at(-1)?.position ?? 0;
        }
      });
      expect(damaged.reason).toBe('store_damaged');
    });
  });

  it('that was left empty, as by a start that was cut off, is begun', () => {
    writeFileSync(file, '');
    chmodSync(file, 0o600);
    opened().apply([keep('e1'), acknowledge('e1')]);
    expect(store?.findCommand('e1')?.stage).toBe('acknowledged');
  });
});
