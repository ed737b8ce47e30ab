import { Outbox } from '../../src/connections/connectors/gateway/outbox';
import { gate, type Gate } from './fakeEvents';

/** A transport that a test lets go on; what it took is in `written`. */
function outboxOf(): { outbox: Outbox<string>; written: string[]; open: Gate<void>[] } {
  const written: string[] = [];
  const open: Gate<void>[] = [];
  const outbox = new Outbox<string>(async (message) => {
    written.push(message);
    const room = gate<void>();
    open.push(room);
    await room.promise;
  });
  return { outbox, written, open };
}

const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));
const KIB = 1024;

describe('the outbox of a stream', () => {
  it('takes back what the transport has not been given, and nothing else', async () => {
    const { outbox, written, open } = outboxOf();
    const results = ['a', 'b', 'c'].map(async (key) => await outbox.post(() => key, key, 20 * KIB));
    expect(written).toEqual(['a']);
    expect([outbox.drop('a'), outbox.drop('b'), outbox.drop('b'), outbox.drop('x')]).toEqual([false, true, false, false]);
    open[0]?.open();
    expect(await Promise.all(results)).toEqual([true, false, true]);
    expect(written).toEqual(['a', 'c']);
  });

  it('hands over at once what is small together, at most 64, and waits until all of it is taken', async () => {
    const { outbox, written, open } = outboxOf();
    const post = (key: string, bytes: number): void => void outbox.post(() => key, key, bytes);
    post('first', 0);
    for (const [key, bytes] of [['a', 8 * KIB], ['b', 8 * KIB], ['c', 1], ['large', 60 * KIB], ['d', 1]] as const) post(key, bytes);
    for (let count = 0; count < 70; count++) post(`e${count}`, 0);
    expect(written).toEqual(['first']);
    const portions: string[][] = [];
    while (outbox.size > 0) {
      const before = written.length;
      for (const room of open.splice(0)) room.open();
      await turn();
      portions.push(written.slice(before));
    }
    expect(portions.map((portion) => portion.length)).toEqual([2, 1, 1, 64, 7]);
    expect(portions.slice(0, 3)).toEqual([['a', 'b'], ['c'], ['large']]);
    const size = written.length;
    post('last', 0);
    open.pop()?.open();
    await turn();
    expect(written).toHaveLength(size); // others of its portion are not taken yet
  });

  it('is closed by the end of the stream: what waits has not left', async () => {
    const { outbox, written } = outboxOf();
    const results = ['a', 'b'].map(async (key) => await outbox.post(() => key, key));
    outbox.close();
    expect(await Promise.all([...results, outbox.post(() => 'c')])).toEqual([true, false, false]);
    expect(written).toEqual(['a']);
  });

  it('leaves out what shall not leave any more when its turn comes', async () => {
    const { outbox, written, open } = outboxOf();
    const first = outbox.post(() => 'a');
    const expired = outbox.post(() => undefined);
    const last = outbox.post(() => 'c');
    open[0]?.open();
    expect(await Promise.all([first, expired, last])).toEqual([true, false, true]);
    expect(written).toEqual(['a', 'c']);
  });
});
