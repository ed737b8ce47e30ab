import { Outbox } from '../../src/connections/connectors/gateway/outbox';
import { gate, type Gate } from './fakeEvents';

/** Creates an outbox with a transport that the test releases. `written` contains what it accepted. */
function getOutbox(): { outbox: Outbox<string>; written: string[]; open: Gate<void>[] } {
  const written: string[] = [];
  const open: Gate<void>[] = [];
  const outbox = new Outbox<string>(async (message) => {
    written.push(message);
    const fixture = gate<void>();
    open.push(fixture);
    await fixture.promise;
  });
  return { outbox, written, open };
}

const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));
const KIB = 1024;

describe('the outbox of a stream', () => {
  it('withdraws only messages that the transport has not received', async () => {
    const { outbox, written, open } = getOutbox();
    const results = ['a', 'b', 'c'].map(async (key) => await outbox.post(() => key, key, 20 * KIB));
    expect(written).toEqual(['a']);
    expect([outbox.remove('a'), outbox.remove('b'), outbox.remove('b'), outbox.remove('x')]).toEqual([
      false,
      true,
      false,
      false,
    ]);
    open[0]?.open();
    expect(await Promise.all(results)).toEqual([true, false, true]);
    expect(written).toEqual(['a', 'c']);
  });

  it('hands over small messages together, at most 64, and waits until all of them are accepted', async () => {
    const { outbox, written, open } = getOutbox();
    const post = (key: string, bytes: number): void => void outbox.post(() => key, key, bytes);
    post('first', 0);
    for (const [key, bytes] of [
      ['a', 8 * KIB],
      ['b', 8 * KIB],
      ['c', 1],
      ['large', 60 * KIB],
      ['d', 1],
    ] as const)
      post(key, bytes);
    for (let count = 0; count < 70; count++) post(`e${count}`, 0);
    expect(written).toEqual(['first']);
    const portions: string[][] = [];
    while (outbox.size > 0) {
      const before = written.length;
      for (const fixture of open.splice(0)) fixture.open();
      await turn();
      portions.push(written.slice(before));
    }
    expect(portions.map((portion) => portion.length)).toEqual([2, 1, 1, 64, 7]);
    expect(portions.slice(0, 3)).toEqual([['a', 'b'], ['c'], ['large']]);
    const size = written.length;
    post('last', 0);
    open.pop()?.open();
    await turn();
    expect(written).toHaveLength(size); // Others of its batch are not accepted yet.
  });

  it('is closed at the end of the stream: waiting messages were not sent', async () => {
    const { outbox, written } = getOutbox();
    const results = ['a', 'b'].map(async (key) => await outbox.post(() => key, key));
    outbox.close();
    expect(await Promise.all([...results, outbox.post(() => 'c')])).toEqual([true, false, false]);
    expect(written).toEqual(['a']);
  });

  it('skips messages that are no longer to be sent when their turn comes', async () => {
    const { outbox, written, open } = getOutbox();
    const first = outbox.post(() => 'a');
    const expired = outbox.post(() => undefined);
    const last = outbox.post(() => 'c');
    open[0]?.open();
    expect(await Promise.all([first, expired, last])).toEqual([true, false, true]);
    expect(written).toEqual(['a', 'c']);
  });
});
