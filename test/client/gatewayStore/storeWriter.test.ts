import { GatewayError, type GatewayStore, memoryStore, type StoreChange } from '../../../src/client/gateway';
import { StoreWriter } from '../../../src/client/gateway/store/storeWriter';
import { waitUntil } from '../../support/waitUntil';
import { acknowledgeCommand, forgetUplinks, IDENTITY, storeCommand, storeUplink } from './stores';

/** Creates a memory store that counts transactions and can be told to fail. */
function createWatchedStore(): GatewayStore & {
  readonly batches: (readonly StoreChange[])[];
  shouldReject: (changes: readonly StoreChange[]) => boolean;
} {
  const store = memoryStore();
  store.open(IDENTITY);
  const batches: (readonly StoreChange[])[] = [];
  const spy = {
    batches,
    shouldReject: (changes: readonly StoreChange[]) => changes.length < 0,
    apply(changes: readonly StoreChange[]): void {
      if (spy.shouldReject(changes)) throw new GatewayError('store_full', 'the disk is full');
      store.apply(changes);
      batches.push(changes);
    },
  };
  return new Proxy(store, {
    get: (target, name) => Reflect.get(name in spy ? spy : target, name, name in spy ? spy : target) as unknown,
    set: (_, name, value) => Reflect.set(spy, name, value),
  }) as ReturnType<typeof createWatchedStore>;
}

/** Resolves after the given number of event loop turns. */
async function waitTurns(count = 3): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((done) => setImmediate(done));
}

async function getReason(written: Promise<void>): Promise<string> {
  return await written.then(
    () => 'written',
    (error: GatewayError) => error.reason,
  );
}

/** Returns how many entries of maps are read while some work runs. */
function countEntriesRead(work: () => void): number {
  let count = 0;
  const iterate = Map.prototype[Symbol.iterator];
  const iteration = jest.spyOn(Map.prototype, Symbol.iterator).mockImplementation(function* (
    this: Map<unknown, unknown>,
  ) {
    for (const entry of iterate.call(this)) {
      count += 1;
      yield entry;
    }
    return undefined;
  });
  try {
    work();
  } finally {
    iteration.mockRestore();
  }
  return count;
}

describe('the writer of a store', () => {
  let store: ReturnType<typeof createWatchedStore>;
  let writer: StoreWriter;
  let events: string[];

  beforeEach(() => {
    store = createWatchedStore();
    events = [];
    writer = new StoreWriter({
      store,
      onFailing: (error) => events.push(`failing: ${error.message}`),
      onRecovered: () => events.push('recovered'),
      waitMs: 5,
      retryMs: 5,
    });
  });

  afterEach(() => writer.close());

  const sizes = () => store.batches.map((batch) => batch.length);

  it('writes the changes of one event loop turn in one transaction, in order', async () => {
    const written = Promise.all(['u1', 'u2', 'u3'].map(async (id) => await writer.write(storeUplink(id))));
    expect(store.batches).toEqual([]);
    expect(writer.uplinkCount).toBe(3);
    await written;
    expect([sizes(), writer.uplinkCount]).toEqual([[3], 3]);
    expect(store.uplinksAfter(0, 9).map(({ uplinkId }) => uplinkId)).toEqual(['u1', 'u2', 'u3']);
  });

  it('limits a transaction by number and by size', async () => {
    await Promise.all(Array.from({ length: 2500 }, async (_, at) => await writer.write(storeUplink(`u${at}`))));
    expect(sizes()).toEqual([1000, 1000, 500]);
    await Promise.all(
      Array.from({ length: 100 }, async (_, at) => await writer.write(storeUplink(`l${at}`, 64 * 1024))),
    );
    expect(sizes().slice(3)).toEqual([64, 36]);
  });

  it('writes acknowledgements with the next change, or alone after a short delay', async () => {
    await writer.write(storeUplink('u1'));
    await writer.write(storeUplink('u2'));
    writer.writeLater(forgetUplinks('u1'));
    await writer.write(storeUplink('u3'));
    expect(sizes()).toEqual([1, 1, 2]);
    writer.writeLater(forgetUplinks('u2'));
    expect(store.uplinkCount).toBe(2);
    await waitUntil(() => store.uplinkCount === 1);
    expect(sizes()).toEqual([1, 1, 2, 1]);
  });

  it('does not delay a large number of acknowledgements', async () => {
    writer.close();
    writer = new StoreWriter({ store, onFailing: () => {}, onRecovered: () => {}, waitMs: 60_000 });
    for (let at = 0; at < 2500; at += 1) writer.writeLater(forgetUplinks(`u${at}`));
    await waitTurns(4);
    expect(sizes()).toEqual([1000, 1000, 500]);
  });

  it('flushes pending changes on request, and when it closes', async () => {
    const written = writer.write(storeUplink('u1'));
    writer.writeLater(acknowledgeCommand('e1'));
    writer.flush();
    expect(sizes()).toEqual([2]);
    writer.writeLater(forgetUplinks('u1'));
    writer.close();
    expect([sizes(), store.uplinkCount]).toEqual([[2, 1], 0]);
    await written;
    expect(await getReason(writer.write(storeUplink('u2')))).toBe('stopped');
  });

  it('writes all deferred changes when it closes, however many there are', () => {
    for (let at = 0; at < 2500; at += 1) writer.writeLater(forgetUplinks(`u${at}`));
    writer.close();
    expect(sizes()).toEqual([1000, 1000, 500]);
  });

  it('reports a failure to every waiting caller, retries none of its changes, and reports the failure state once', async () => {
    store.shouldReject = () => true;
    const outcomes = await Promise.all([
      getReason(writer.write(storeUplink('u1'))),
      getReason(writer.write(storeCommand('e1'))),
    ]);
    expect([outcomes, await getReason(writer.write(storeCommand('e2'))), writer.uplinkCount]).toEqual([
      ['store_full', 'store_full'],
      'store_full',
      0,
    ]);
    expect(events).toEqual(['failing: the disk is full']);
    store.shouldReject = () => false;
    await writer.write(storeUplink('u2'));
    expect([events, sizes(), store.openCommands()]).toEqual([['failing: the disk is full', 'recovered'], [1], []]);
  });

  it('retries deferred changes until they are stored, each once', async () => {
    await writer.write(storeCommand('e1', 'started'));
    store.shouldReject = () => true;
    for (let time = 0; time < 5; time += 1) writer.writeLater(storeCommand('e1', 'ended', { result: 1 }));
    await waitUntil(() => events.length === 1);
    writer.writeLater(acknowledgeCommand('e1'));
    store.shouldReject = () => false;
    await waitUntil(() => store.openCommands().length === 0);
    expect(sizes()).toEqual([1, 2]);
    expect(store.findCommand('e1')).toMatchObject({ stage: 'acknowledged', result: 1 });
    expect(events).toEqual(['failing: the disk is full', 'recovered']);
  });

  it('reports when deferred changes are stored', async () => {
    const written: string[] = [];
    store.shouldReject = () => true;
    writer.writeLater(storeCommand('e1', 'ended', { result: 1 }), () => written.push('e1'));
    await waitUntil(() => events.length === 1);
    expect(written).toEqual([]);
    store.shouldReject = () => false;
    await waitUntil(() => written.length > 0);
    expect([written, store.findCommand('e1')?.stage]).toEqual([['e1'], 'ended']);
  });

  it('accepts commands and deletions when there is no space for uplinks, and does not report a recovery', async () => {
    await writer.write(storeUplink('u0'));
    store.shouldReject = (changes) => changes.some(({ kind }) => kind === 'uplink');
    writer.writeLater(forgetUplinks('u0'));
    const outcomes = await Promise.all([
      getReason(writer.write(storeUplink('u1'))),
      getReason(writer.write(storeCommand('e1'))),
      getReason(writer.write(storeUplink('u2'))),
    ]);
    expect([outcomes, store.uplinkCount, writer.uplinkCount]).toEqual([['store_full', 'written', 'store_full'], 0, 0]);
    await writer.write(storeCommand('e2'));
    expect(events).toEqual(['failing: the disk is full']);
    store.shouldReject = () => false;
    await writer.write(storeUplink('u1'));
    expect(events).toEqual(['failing: the disk is full', 'recovered']);
  });

  it('reports corruption once, regardless of earlier reports', async () => {
    store.shouldReject = () => true;
    expect(await getReason(writer.write(storeUplink('u1')))).toBe('store_full');
    store.shouldReject = (changes) => {
      if (changes.some(({ kind }) => kind === 'uplink')) return true;
      throw new GatewayError('store_corrupt', 'the file is corrupt');
    };
    await Promise.all([getReason(writer.write(storeUplink('u2'))), getReason(writer.write(storeCommand('e1')))]);
    expect(await getReason(writer.write(storeCommand('e2')))).toBe('store_corrupt');
    expect(events).toEqual(['failing: the disk is full', 'failing: the file is corrupt']);
  });

  it('reads only as many deferred changes as fit into a batch', () => {
    store.shouldReject = () => true;
    for (let at = 0; at < 10_000; at += 1) writer.writeLater(forgetUplinks(`u${at}`));
    expect(countEntriesRead(() => writer.flush())).toBeLessThanOrEqual(1001);
    expect(countEntriesRead(() => [...new Map([['a', 1]])])).toBe(1);
  });

  it('also reports a recovery if no uplink arrived for long', async () => {
    store.shouldReject = (changes) => changes.some(({ kind }) => kind === 'uplink');
    expect(await getReason(writer.write(storeUplink('u1')))).toBe('store_full');
    await waitUntil(() => {
      writer.writeLater(acknowledgeCommand('e1'));
      return events.length === 2;
    });
    expect(events).toEqual(['failing: the disk is full', 'recovered']);
  });

  it('converts any error of a store to a GatewayError', async () => {
    store.shouldReject = () => {
      throw new TypeError('no such thing');
    };
    expect(await getReason(writer.write(storeUplink('u1')))).toBe('store_failed');
    expect(events).toEqual(['failing: the store cannot be written: no such thing']);
  });
});
