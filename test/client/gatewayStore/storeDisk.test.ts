import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type GatewayStore, sqliteStore, type StoreChange } from '../../../src/client/gateway';
import { canMount, SmallDisk } from '../../faults/smallDisk';
import { forgetUplinks, IDENTITY, storeCommand, captureError, storeUplink } from './stores';

const inMemory = canMount('inMemory') ? it : it.skip;
const inFile = canMount('inFile') ? it : it.skip;

const createLargeChange = (executionId: string): StoreChange =>
  storeCommand(executionId, 'received', { message: Buffer.alloc(20_000, 1) });

describe('a store whose disk', () => {
  let disk: SmallDisk;
  let store: GatewayStore;

  function openStore(): GatewayStore {
    store = sqliteStore(join(disk.root, 'gateway.db'));
    store.open(IDENTITY);
    return store;
  }

  afterEach(() => {
    store.close();
    disk.remove();
  });

  const ids = () => store.uplinksAfter(0, 10_000).map(({ uplinkId }) => uplinkId);

  /** Applies the changes for each number until the store accepts no more. Returns how many succeeded. */
  function fillUntilFull(createChanges: (at: number) => StoreChange[]): number {
    for (let at = 0; ; at += 1) {
      try {
        store.apply(createChanges(at));
      } catch (error) {
        expect(error).toMatchObject({
          reason: 'store_full',
          message: expect.stringMatching(/ is full.*; free some space, and the gateway continues automatically$/),
        });
        return at;
      }
    }
  }

  const openIds = () => store.openCommands().map(({ executionId }) => executionId);

  inMemory(
    'is full accepts no change, not even in part, keeps its content, and recovers when space is available',
    () => {
      disk = SmallDisk.inMemory(6);
      openStore().apply([storeCommand('e0', 'started'), storeUplink('u1')]);
      disk.fill();
      const storedCount = fillUntilFull((at) => [createLargeChange(`f${at}`), createLargeChange(`g${at}`)]);
      const before = openIds();
      expect(before).toHaveLength(2 * storedCount + 1);
      expect(
        captureError(() =>
          store.apply([
            createLargeChange('x1'),
            createLargeChange('x2'),
            storeCommand('e0', 'ended'),
            createLargeChange('x3'),
          ]),
        ).reason,
      ).toBe('store_full');
      expect(captureError(() => store.apply([storeUplink('u2')])).reason).toBe('store_full');
      expect([openIds(), store.uplinkCount, store.findCommand('e0')?.stage]).toEqual([before, 1, 'started']);

      disk.free();
      store.apply([createLargeChange('x1'), storeCommand('e0', 'ended'), storeUplink('u2')]);
      expect([openIds().at(-1), ids(), store.findCommand('e0')?.stage]).toEqual(['x1', ['u1', 'u2'], 'ended']);
      store.close();
      openStore();
      expect([openIds(), ids()]).toEqual([
        [...before, 'x1'],
        ['u1', 'u2'],
      ]);
    },
  );

  inMemory(
    'was filled by its own uplinks still accepts commands and acknowledgements, and accepts uplinks again when those free space',
    () => {
      disk = SmallDisk.inMemory(12);
      openStore();
      const storedCount = fillUntilFull((at) => [storeUplink(`f${at}`, 20_000), storeUplink(`g${at}`, 20_000)]);
      expect(storedCount).toBeGreaterThan(50);
      for (let at = 0; at < 100; at += 1) store.apply([storeCommand(`e${at}`)]);
      for (let at = 0; at < 100; at += 1) store.apply([storeCommand(`e${at}`, 'started')]);
      for (let at = 0; at < storedCount; at += 1) store.apply([forgetUplinks(`f${at}`), forgetUplinks(`g${at}`)]);
      expect([store.uplinkCount, openIds().length]).toEqual([0, 100]);
      expect(fillUntilFull((at) => [storeUplink(`h${at}`, 20_000), storeUplink(`i${at}`, 20_000)])).toBeGreaterThan(50);
    },
  );

  inMemory('is full on start can be opened, and a new one reports the full disk', () => {
    disk = SmallDisk.inMemory(2);
    openStore().apply([storeUplink('u1')]);
    store.close();
    disk.fill();
    openStore();
    expect(ids()).toEqual(['u1']);
    expect(captureError(() => sqliteStore(join(disk.root, 'other.db')).open(IDENTITY)).reason).toBe('store_full');
    disk.free();
  });

  inFile(
    'fails reports the error for every change, can still be read, and has all accepted changes after a restart',
    () => {
      disk = SmallDisk.inFile(8);
      openStore().apply([storeUplink('u1')]);
      const { size } = statSync(join(disk.root, 'gateway.db-wal'));
      expect(size).toBeGreaterThan(0);
      disk.fail();
      expect(captureError(() => store.apply([storeUplink('u2')])).reason).toBe('store_failed');
      expect(captureError(() => store.apply([storeUplink('u3')])).reason).toBe('store_failed');
      expect(ids()).toEqual(['u1']);
      store.close();
      expect(captureError(openStore)).toMatchObject({
        reason: 'store_unusable',
        message: expect.stringContaining('read and write'),
      });
    },
  );
});
