import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type GatewayStore, sqliteStore, type StoreChange } from '../../../src/client/gateway';
import { canMount, SmallDisk } from '../../faults/smallDisk';
import { forget, IDENTITY, keep, thrownBy, uplink } from './stores';

const inMemory = canMount('inMemory') ? it : it.skip;
const inFile = canMount('inFile') ? it : it.skip;

const large = (executionId: string): StoreChange => keep(executionId, 'received', { message: Buffer.alloc(20_000, 1) });

describe('a store whose disk', () => {
  let disk: SmallDisk;
  let store: GatewayStore;

  function opened(): GatewayStore {
    store = sqliteStore(join(disk.root, 'gateway.db'));
    store.open(IDENTITY);
    return store;
  }

  afterEach(() => {
    store.close();
    disk.remove();
  });

  const ids = () => store.uplinksAfter(0, 10_000).map(({ uplinkId }) => uplinkId);

  /** Keeps what is made of its number until the store takes no more; how many that were. */
  function untilFull(changesOf: (at: number) => StoreChange[]): number {
    for (let at = 0; ; at += 1) {
      try {
        store.apply(changesOf(at));
      } catch (error) {
        expect(error).toMatchObject({ reason: 'store_full', message: expect.stringMatching(/ is full.*; make room, and it goes on by itself$/) });
        return at;
      }
    }
  }

  const openIds = () => store.openCommands().map(({ executionId }) => executionId);

  inMemory('is full takes nothing, not even in part, keeps what it has, and goes on when there is room', () => {
    disk = SmallDisk.inMemory(6);
    opened().apply([keep('e0', 'started'), uplink('u1')]);
    disk.fill();
    const kept = untilFull((at) => [large(`f${at}`), large(`g${at}`)]);
    const before = openIds();
    expect(before).toHaveLength(2 * kept + 1);
    expect(thrownBy(() => store.apply([large('x1'), large('x2'), keep('e0', 'ended'), large('x3')])).reason).toBe('store_full');
    expect(thrownBy(() => store.apply([uplink('u2')])).reason).toBe('store_full');
    expect([openIds(), store.uplinkCount, store.findCommand('e0')?.stage]).toEqual([before, 1, 'started']);

    disk.free();
    store.apply([large('x1'), keep('e0', 'ended'), uplink('u2')]);
    expect([openIds().at(-1), ids(), store.findCommand('e0')?.stage]).toEqual(['x1', ['u1', 'u2'], 'ended']);
    store.close();
    opened();
    expect([openIds(), ids()]).toEqual([
      [...before, 'x1'],
      ['u1', 'u2'],
    ]);
  });

  inMemory('was filled by its own uplinks takes commands and acknowledgements on, and uplinks again where those made room', () => {
    disk = SmallDisk.inMemory(12);
    opened();
    const kept = untilFull((at) => [uplink(`f${at}`, 20_000), uplink(`g${at}`, 20_000)]);
    expect(kept).toBeGreaterThan(50);
    for (let at = 0; at < 100; at += 1) store.apply([keep(`e${at}`)]);
    for (let at = 0; at < 100; at += 1) store.apply([keep(`e${at}`, 'started')]);
    for (let at = 0; at < kept; at += 1) store.apply([forget(`f${at}`), forget(`g${at}`)]);
    expect([store.uplinkCount, openIds().length]).toEqual([0, 100]);
    expect(untilFull((at) => [uplink(`h${at}`, 20_000), uplink(`i${at}`, 20_000)])).toBeGreaterThan(50);
  });

  inMemory('is full when it is opened is opened, and a new one says that there is no room', () => {
    disk = SmallDisk.inMemory(2);
    opened().apply([uplink('u1')]);
    store.close();
    disk.fill();
    opened();
    expect(ids()).toEqual(['u1']);
    expect(thrownBy(() => sqliteStore(join(disk.root, 'other.db')).open(IDENTITY)).reason).toBe('store_full');
    disk.free();
  });

  inFile('fails says so with every change, reads on, and after a new start has all that it took', () => {
    disk = SmallDisk.inFile(8);
    opened().apply([uplink('u1')]);
    const { size } = statSync(join(disk.root, 'gateway.db-wal'));
    expect(size).toBeGreaterThan(0);
    disk.fail();
    expect(thrownBy(() => store.apply([uplink('u2')])).reason).toBe('store_failed');
    expect(thrownBy(() => store.apply([uplink('u3')])).reason).toBe('store_failed');
    expect(ids()).toEqual(['u1']);
    store.close();
    expect(thrownBy(opened)).toMatchObject({ reason: 'store_unusable', message: expect.stringContaining('read and write') });
  });
});
