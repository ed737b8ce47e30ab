import { KeyedTurns } from '../../src/media/keyedTurns';

describe('turns', () => {
  it('come one after the other on one key, in the order in which they were asked for', async () => {
    const turns = new KeyedTurns();
    const told: string[] = [];
    const work = async (name: string): Promise<void> => {
      const end = await turns.take('key');
      told.push(`${name} begins`);
      await Promise.resolve();
      told.push(`${name} ends`);
      end();
    };
    await Promise.all([work('a'), work('b'), work('c')]);
    expect(told).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  });

  it('come at once on different keys, and again on one that was free', async () => {
    const turns = new KeyedTurns();
    const endOfOne = await turns.take('one');
    const endOfTwo = await turns.take('two');
    endOfTwo();
    (await turns.take('two'))();
    endOfOne();
    (await turns.take('one'))();
  });
});
