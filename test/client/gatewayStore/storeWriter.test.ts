import { GatewayError, type GatewayStore, memoryStore, type StoreChange } from '../../../src/client/gateway';
import { StoreWriter } from '../../../src/client/gateway/store/storeWriter';
import { acknowledge, forget, IDENTITY, keep, uplink } from './stores';

/** A memory store that counts transactions and fails where it is told to. */
function watched(): GatewayStore & { readonly batches: (readonly StoreChange[])[]; refuses: (changes: readonly StoreChange[]) => boolean } {
  const store = memoryStore();
  store.open(IDENTITY);
  const batches: (readonly StoreChange[])[] = [];
  const spied = {
    batches,
    refuses: (changes: readonly StoreChange[]) => changes.length < 0,
    apply(changes: readonly StoreChange[]): void {
      if (spied.refuses(changes)) throw new GatewayError('store_full', 'the disk is full');
      store.apply(changes);
      batches.push(changes);
    },
  };
  return new Proxy(store, { get: (target, name) => Reflect.get(name in spied ? spied : target, name, name in spied ? spied : target) as unknown, set: (_, name, value) => Reflect.set(spied, name, value) }) as ReturnType<typeof watched>;
}

/** Resolves when the turns that are due are done. */
async function turns(count = 3): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((done) => setImmediate(done));
}

async function reasonOf(written: Promise<void>): Promise<string> {
  return await written.then(
    () => 'written',
    (error: GatewayError) => error.reason,
  );
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((done) => setTimeout(done, 1));
}

describe('the writer of a store', () => {
  let store: ReturnType<typeof watched>;
  let writer: StoreWriter;
  let events: string[];

  beforeEach(() => {
    store = watched();
    events = [];
    writer = new StoreWriter({ store, onFailing: (error) => events.push(`failing: ${error.message}`), onRecovered: () => events.push('recovered'), waitMs: 5, retryMs: 5 });
  });

  afterEach(() => writer.close());

  const sizes = () => store.batches.map((batch) => batch.length);

  it('writes what comes in one turn in one transaction, in its order', async () => {
    const written = Promise.all(['u1', 'u2', 'u3'].map(async (id) => await writer.write(uplink(id))));
    expect(store.batches).toEqual([]);
    expect(writer.uplinkCount).toBe(3);
    await written;
    expect([sizes(), writer.uplinkCount]).toEqual([[3], 3]);
    expect(store.uplinksAfter(0, 9).map(({ uplinkId }) => uplinkId)).toEqual(['u1', 'u2', 'u3']);
  });

  it('bounds a transaction by number and by size', async () => {
    await Promise.all(Array.from({ length: 2500 }, async (_, at) => await writer.write(uplink(`u${at}`))));
    expect(sizes()).toEqual([1000, 1000, 500]);
    await Promise.all(Array.from({ length: 100 }, async (_, at) => await writer.write(uplink(`l${at}`, 64 * 1024))));
    expect(sizes().slice(3)).toEqual([64, 36]);
  });

  it('lets acknowledgements ride with the next change, or go by themselves in a moment', async () => {
    await writer.write(uplink('u1'));
    await writer.write(uplink('u2'));
    writer.writeLater(forget('u1'));
    await writer.write(uplink('u3'));
    expect(sizes()).toEqual([1, 1, 2]);
    writer.writeLater(forget('u2'));
    expect(store.uplinkCount).toBe(2);
    await until(() => store.uplinkCount === 1);
    expect(sizes()).toEqual([1, 1, 2, 1]);
  });

  it('does not wait for the moment where many came', async () => {
    writer.close();
    writer = new StoreWriter({ store, onFailing: () => {}, onRecovered: () => {}, waitMs: 60_000 });
    for (let at = 0; at < 2500; at += 1) writer.writeLater(forget(`u${at}`));
    await turns(4);
    expect(sizes()).toEqual([1000, 1000, 500]);
  });

  it('writes at once what waits when it is asked to, and when it ends', async () => {
    const written = writer.write(uplink('u1'));
    writer.writeLater(acknowledge('e1'));
    writer.flush();
    expect(sizes()).toEqual([2]);
    writer.writeLater(forget('u1'));
    writer.close();
    expect([sizes(), store.uplinkCount]).toEqual([[2, 1], 0]);
    await written;
    expect(await reasonOf(writer.write(uplink('u2')))).toBe('stopped');
  });

  it('tells everybody who waits that it failed, tries nothing of that again, and says once that it fails', async () => {
    store.refuses = () => true;
    const outcomes = await Promise.all([reasonOf(writer.write(uplink('u1'))), reasonOf(writer.write(keep('e1')))]);
    expect([outcomes, await reasonOf(writer.write(keep('e2'))), writer.uplinkCount]).toEqual([['store_full', 'store_full'], 'store_full', 0]);
    expect(events).toEqual(['failing: the disk is full']);
    store.refuses = () => false;
    await writer.write(uplink('u2'));
    expect([events, sizes(), store.openCommands()]).toEqual([['failing: the disk is full', 'recovered'], [1], []]);
  });

  it('tries again what was given for later until it is in, each thing once', async () => {
    await writer.write(keep('e1', 'started'));
    store.refuses = () => true;
    for (let time = 0; time < 5; time += 1) writer.writeLater(keep('e1', 'ended', { result: 1 }));
    await until(() => events.length === 1);
    writer.writeLater(acknowledge('e1'));
    store.refuses = () => false;
    await until(() => store.openCommands().length === 0);
    expect(sizes()).toEqual([1, 2]);
    expect(store.findCommand('e1')).toMatchObject({ stage: 'acknowledged', result: 1 });
    expect(events).toEqual(['failing: the disk is full', 'recovered']);
  });

  it('says when what was given for later is in', async () => {
    const written: string[] = [];
    store.refuses = () => true;
    writer.writeLater(keep('e1', 'ended', { result: 1 }), () => written.push('e1'));
    await until(() => events.length === 1);
    expect(written).toEqual([]);
    store.refuses = () => false;
    await until(() => written.length > 0);
    expect([written, store.findCommand('e1')?.stage]).toEqual([['e1'], 'ended']);
  });

  it('takes commands and what makes room where there is none for uplinks, and does not call that recovered', async () => {
    await writer.write(uplink('u0'));
    store.refuses = (changes) => changes.some(({ kind }) => kind === 'uplink');
    writer.writeLater(forget('u0'));
    const outcomes = await Promise.all([reasonOf(writer.write(uplink('u1'))), reasonOf(writer.write(keep('e1'))), reasonOf(writer.write(uplink('u2')))]);
    expect([outcomes, store.uplinkCount, writer.uplinkCount]).toEqual([['store_full', 'written', 'store_full'], 0, 0]);
    await writer.write(keep('e2'));
    expect(events).toEqual(['failing: the disk is full']);
    store.refuses = () => false;
    await writer.write(uplink('u1'));
    expect(events).toEqual(['failing: the disk is full', 'recovered']);
  });

  it('says that it is damaged whatever it said before, once', async () => {
    store.refuses = () => true;
    expect(await reasonOf(writer.write(uplink('u1')))).toBe('store_full');
    store.refuses = (changes) => {
      if (changes.some(({ kind }) => kind === 'uplink')) return true;
      throw new GatewayError('store_damaged', 'the file is damaged');
    };
    await Promise.all([reasonOf(writer.write(uplink('u2'))), reasonOf(writer.write(keep('e1')))]);
    expect(await reasonOf(writer.write(keep('e2')))).toBe('store_damaged');
    expect(events).toEqual(['failing: the disk is full', 'failing: the file is damaged']);
  });

  it('copies no more than it writes of what waits', async () => {
    const most = 300_000;
    store.refuses = () => true;
    for (let at = 0; at < most; at += 1) writer.writeLater(forget(`u${at}`));
    const since = performance.now();
    for (let time = 0; time < 400; time += 1) writer.flush();
    expect(performance.now() - since).toBeLessThan(2500);
  });

  it('calls it recovered too when no uplink came for long', async () => {
    store.refuses = (changes) => changes.some(({ kind }) => kind === 'uplink');
    expect(await reasonOf(writer.write(uplink('u1')))).toBe('store_full');
    await until(() => {
      writer.writeLater(acknowledge('e1'));
      return events.length === 2;
    });
    expect(events).toEqual(['failing: the disk is full', 'recovered']);
  });

  it('makes a GatewayError of whatever a store throws', async () => {
    store.refuses = () => {
      throw new TypeError('no such thing');
    };
    expect(await reasonOf(writer.write(uplink('u1')))).toBe('store_failed');
    expect(events).toEqual(['failing: the store could not be written: no such thing']);
  });
});
