import { KeyedMutex } from '../../src/media/keyedMutex';

describe('the keyed mutex', () => {
  it('runs work on one key one after the other, in the order of the requests', async () => {
    const turns = new KeyedMutex();
    const order: string[] = [];
    const work = async (name: string): Promise<void> => {
      const end = await turns.lock('key');
      order.push(`${name} begins`);
      await Promise.resolve();
      order.push(`${name} ends`);
      end();
    };
    await Promise.all([work('a'), work('b'), work('c')]);
    expect(order).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  });

  it('runs work on different keys concurrently, and reuses a key that was released', async () => {
    const turns = new KeyedMutex();
    const endOfOne = await turns.lock('one');
    const endOfTwo = await turns.lock('two');
    endOfTwo();
    (await turns.lock('two'))();
    endOfOne();
    (await turns.lock('one'))();
  });
});
