import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import BetterSqlite3 from 'better-sqlite3';
import { GatewayError, type GatewayStore, sqliteStore } from '../../../src/client/gateway';
import { SQL, STORE_VERSION } from '../../../src/client/gateway/store/sqliteSchema';
import {
  acknowledgeCommand,
  forgetUplinks,
  IDENTITY,
  storeCommand,
  newFile,
  removeFiles,
  captureError,
  storeUplink,
} from './stores';

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

  function openStore(): GatewayStore {
    store = sqliteStore(file);
    store.open(IDENTITY);
    return store;
  }

  /** Creates a store with some content and closes it. */
  function fillStore(): void {
    const before = openStore();
    before.apply([
      storeCommand('e1', 'started'),
      ...Array.from({ length: 200 }, (_, at) => storeUplink(`u${at}`, 1000)),
    ]);
    before.close();
  }

  /** Returns the error when the store is opened. */
  function captureOpenError(): GatewayError {
    const error = captureError(openStore);
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
    openStore().apply([storeUplink('u1')]);
    expect([file, `${file}-wal`].map((name) => statSync(name).mode & 0o777)).toEqual([0o600, 0o600]);
    expect([`${file}-journal`, `${file}-shm`].filter((name) => existsSync(name))).toEqual([]);
  });

  it('syncs every change to disk, and keeps a bounded log', () => {
    const openedStore = openStore();
    for (let at = 0; at < 100; at += 1) {
      openedStore.apply([storeUplink(`a${at}`, 60_000), storeUplink(`b${at}`, 60_000), storeUplink(`c${at}`, 60_000)]);
      openedStore.apply([forgetUplinks(`a${at}`), forgetUplinks(`b${at}`), forgetUplinks(`c${at}`)]);
    }
    expect(statSync(`${file}-wal`).size).toBeLessThan(9 * 1024 * 1024);
    expect(statSync(file).size).toBeLessThan(2 * 1024 * 1024); // 18 MB were written in total.
  });

  it('releases disk space after a long outage', () => {
    const openedStore = openStore();
    const ids = Array.from({ length: 600 }, (_, at) => `u${at}`);
    openedStore.apply(ids.map((id) => storeUplink(id, 50_000)));
    openedStore.close();
    const large = statSync(file).size;
    openedStore.open(IDENTITY);
    for (const id of ids) openedStore.apply([forgetUplinks(id)]);
    openedStore.close();
    expect(large).toBeGreaterThan(30_000_000);
    expect(statSync(file).size).toBeLessThan(15_000_000);
  });

  it('opens and reads in little memory with a hundred thousand waiting uplinks', () => {
    const openedStore = openStore();
    for (let batch = 0; batch < 100; batch += 1)
      openedStore.apply(Array.from({ length: 1000 }, (_, at) => storeUplink(`u${batch}-${at}`, 600)));
    openedStore.close();
    const before = process.memoryUsage().rss;
    openedStore.open(IDENTITY);
    let read = 0;
    for (
      let page = openedStore.uplinksAfter(0, 500);
      page.length > 0;
      page = openedStore.uplinksAfter(page.at(-1)?.position ?? 0, 500)
    )
      read += page.length;
    expect([openedStore.uplinkCount, read]).toEqual([100_000, 100_000]);
    expect(process.memoryUsage().rss - before).toBeLessThan(50 * 1024 * 1024); // The file has 70 MB.
  });

  it('uses an index for every query', () => {
    fillStore();
    change((database) => {
      const getPlan = (sql: string) =>
        (
          database.prepare(`explain query plan ${sql.replaceAll(/\$\w+/g, '1').replaceAll('?', '1')}`).all() as {
            detail: string;
          }[]
        )
          .map(({ detail }) => detail)
          .join('; ');
      for (const name of [
        'findCommand',
        'findAcknowledged',
        'uplinksAfter',
        'removeCommand',
        'removeUplink',
        'forgetAcknowledged',
        'acknowledgeCommand',
      ] as const) {
        expect(`${name}: ${getPlan(SQL[name])}`).toMatch(
          /: SEARCH \w+ USING (INTEGER PRIMARY KEY|INDEX|COVERING INDEX)[^;]*$/,
        );
      }
      expect(getPlan(SQL.upsertCommand)).toContain('SEARCH acknowledged_commands USING COVERING INDEX');
      expect(getPlan(SQL.openCommands)).toBe('SCAN commands');
      expect(getPlan(SQL.loadCounters)).toContain('SCAN uplinks USING COVERING INDEX');
    });
  });

  it('rejects a second user in the process, whose attempt does not affect the first', () => {
    const first = openStore();
    expect([captureOpenError().reason, captureOpenError().message]).toEqual([
      'store_in_use',
      `the store ${file} is used by another gateway; stop it, or use a separate store for this one`,
    ]);
    first.apply([storeUplink('u1')]);
    expect(captureOpenError().reason).toBe('store_in_use');
    first.close();
    expect(openStore().uplinkCount).toBe(1);
  });

  it('reports an invalid location', () => {
    const inFolder = (name: string) =>
      captureError(() => sqliteStore({ file: join(dirname(file), name) }).open(IDENTITY));
    expect(inFolder('none/gateway.db')).toMatchObject({
      reason: 'store_unusable',
      message: expect.stringContaining('the folder of the store'),
    });
    mkdirSync(join(dirname(file), 'folder'));
    expect(inFolder('folder')).toMatchObject({
      reason: 'store_unusable',
      message: expect.stringContaining('is not a file'),
    });
  });

  it('reports a native module that does not match', () => {
    const missingModule = join(dirname(file), 'engine.node');
    writeFileSync(missingModule, 'no machine code');
    const error = captureError(() => sqliteStore({ file, nativeBinding: missingModule }).open(IDENTITY));
    expect(error).toMatchObject({
      reason: 'store_unusable',
      message: expect.stringMatching(/native addon of better-sqlite3 cannot be loaded \(.*npm rebuild better-sqlite3/),
    });
  });

  it('accepts nothing once its file was removed or replaced', () => {
    const openedStore = openStore();
    openedStore.apply([storeUplink('u1')]);
    copyFileSync(file, `${file}.copy`);
    rmSync(file);
    expect(captureError(() => openedStore.apply([storeUplink('u2')]))).toMatchObject({
      reason: 'store_failed',
      message: expect.stringContaining('was removed or replaced'),
    });
    copyFileSync(`${file}.copy`, file);
    expect(captureError(() => openedStore.apply([storeUplink('u2')])).reason).toBe('store_failed');
    expect(openedStore.uplinkCount).toBe(1);
  });

  describe('with other content', () => {
    it.each([
      ['JSON of the old simulator', '[{"executionId":"e1"}]', /is a JSON file of the simulator before 0\.2\.0/],
      ['text', 'a letter to somebody that is longer than a header', /is not a store of a gateway/],
      ['zeros', '\0'.repeat(8192), /is not a store of a gateway/],
    ])('%s is rejected and left unchanged', (_, content, message) => {
      writeFileSync(file, content);
      expect(captureOpenError()).toMatchObject({ reason: 'store_of_another', message: expect.stringMatching(message) });
      expect(readFileSync(file, 'utf8')).toBe(content);
    });

    it('a database of another program is rejected and left unchanged', () => {
      change((database) => database.exec('create table notes (text text); insert into notes values (1)'));
      const before = readFileSync(file);
      expect(captureOpenError()).toMatchObject({
        reason: 'store_of_another',
        message: expect.stringContaining('is a database of another program'),
      });
      expect(readFileSync(file).equals(before)).toBe(true);
    });

    it('a store of a later version is rejected', () => {
      fillStore();
      change((database) => database.pragma(`user_version = ${STORE_VERSION + 1}`));
      expect(captureOpenError()).toMatchObject({
        reason: 'store_unusable',
        message: expect.stringContaining(
          `has version ${STORE_VERSION + 1}, but this plantroom-client supports at most ${STORE_VERSION}`,
        ),
      });
    });
  });

  describe('with corrupt content', () => {
    const corruptions: readonly (readonly [string, () => void])[] = [
      ['truncated in the middle', () => truncateSync(file, Math.floor(statSync(file).size / 8192) * 4096)],
      ['truncated within a page', () => truncateSync(file, statSync(file).size - 4096 - 1000)],
      ['with a zeroed page', () => overwrite(4096 * 3, Buffer.alloc(4096))],
      ['with a destroyed page', () => overwrite(4096 * 20 + 8, Buffer.alloc(2000, 0xa5))],
      ['with a destroyed header', () => overwrite(16, Buffer.alloc(60, 0xff))],
    ];

    it.each(corruptions)('%s is rejected', (_, corrupt) => {
      fillStore();
      corrupt();
      const error = captureOpenError();
      expect(error.reason).toBe('store_corrupt');
      expect(error.message).toMatch(/is corrupt: .*; move .* away and start again with a new store/);
    });

    it('emptied or missing with a leftover log: is not recreated silently', () => {
      openStore().apply([storeUplink('u1')]);
      copyFileSync(`${file}-wal`, `${file}.log`);
      store?.close();
      copyFileSync(`${file}.log`, `${file}-wal`);
      writeFileSync(file, '');
      expect(captureOpenError()).toMatchObject({
        reason: 'store_corrupt',
        message: expect.stringContaining('it is empty, but its log'),
      });
      rmSync(file);
      expect(captureOpenError()).toMatchObject({
        reason: 'store_corrupt',
        message: expect.stringContaining('it is missing, but its log'),
      });
    });

    it('while it is open: reading reports the corruption', () => {
      const before = openStore();
      // The content is larger than the cache of the engine.
      before.apply(Array.from({ length: 600 }, (_, at) => storeUplink(`u${at}`, 60_000)));
      before.close();
      const openedStore = openStore();
      const database = readFileSync(file);
      database.fill(0xa5, 4096 * 20);
      writeFileSync(file, database);
      const corruptionError = captureError(() => {
        for (let position = 0, more = true; more;) {
          const page = openedStore.uplinksAfter(position, 20);
          more = page.length > 0;
          position = page.at(-1)?.position ?? 0;
        }
      });
      expect(corruptionError.reason).toBe('store_corrupt');
    });
  });

  it('left empty by an interrupted start: is initialized', () => {
    writeFileSync(file, '');
    chmodSync(file, 0o600);
    openStore().apply([storeCommand('e1'), acknowledgeCommand('e1')]);
    expect(store?.findCommand('e1')?.stage).toBe('acknowledged');
  });
});
