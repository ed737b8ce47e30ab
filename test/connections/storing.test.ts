import { Storing } from '../../src/connections/connectors/broker/storing';
import { DomainError, notFound } from '../../src/kernel/errors';
import { MemoryLog } from '../support/edge';
import { TestClock } from '../support/testClock';

const away = new DomainError('unavailable', 'database_unavailable', 'away');

describe('storing what came over a link', () => {
  const log = new MemoryLog();
  const clock = new TestClock();
  const told: boolean[] = [];
  const storing: Storing = new Storing({ clock, log, fields: {}, component: 'mqtt', retryMs: 0, onStalled: () => told.push(storing.isStalled) });
  const link = new AbortController();

  async function run(failures: readonly Error[]) {
    const left = [...failures];
    let tries = 0;
    const outcome = await storing.run(link.signal, async () => {
      tries += 1;
      const error = left.shift();
      if (error) throw error;
    });
    return { outcome, tries };
  }

  beforeEach(() => {
    log.lines.splice(0);
    told.splice(0);
  });

  it('goes on for as long as the database is away, and says so seldom', async () => {
    expect(await run(Array.from({ length: 40 }, () => away))).toEqual({ outcome: 'done', tries: 41 });
    expect(log.of('mqtt.storing_fails').map(({ failures }) => failures)).toEqual([1, 2, 4, 8, 16, 32]);
  });

  it('gives up what never can be stored, however often the database was away meanwhile', async () => {
    const wrong = Object.assign(new Error('invalid byte sequence'), { code: '22021' });
    expect(await run([wrong, away, wrong, away, away, wrong, wrong, wrong, wrong])).toEqual({ outcome: 'given_up', tries: 8 });
    expect(log.of('mqtt.storing_given_up')).toEqual([{ given_up: 1, tries: 5, err: wrong }]);
  });

  it('takes another attempt for what failed by chance', async () => {
    expect(await run([new Error('serialization'), new Error('serialization')])).toEqual({ outcome: 'done', tries: 3 });
    expect(log.lines).toEqual([]);
  });

  it('is done with a connection that is deleted', async () => {
    expect(await run([notFound('connection', 'x')])).toEqual({ outcome: 'gone', tries: 1 });
  });

  it('tells when something waits for the database for some seconds, and when nothing does any more', async () => {
    const waiting = [3, 2].map(async (attempts) => {
      await storing.run(link.signal, async () => {
        attempts -= 1;
        clock.advance(5000);
        if (attempts >= 0) throw away;
      });
    });
    await run([]); // what others store meanwhile, or find stored, is no proof
    await Promise.all(waiting);
    expect(told).toEqual([true, false]);
    await run([away, away, away]);
    expect(told).toHaveLength(2);
  });

  it('tells no more of what came over a link that is lost', async () => {
    const lost = new AbortController();
    let tries = 0;
    const waiting = storing.run(lost.signal, async () => {
      tries += 1;
      if (tries === 3) lost.abort();
      clock.advance(5000);
      throw away;
    });
    await expect(waiting).rejects.toThrow('aborted');
    expect(told).toEqual([true, false]);
  });

  it('ends with the link', async () => {
    link.abort();
    await expect(run([])).rejects.toThrow('aborted');
  });
});
