import { Storing } from '../../src/connections/connectors/broker/storing';
import { DomainError, notFound } from '../../src/kernel/errors';
import { MemoryLog } from '../support/edge';

const away = new DomainError('unavailable', 'database_unavailable', 'away');

describe('storing what came over a link', () => {
  const log = new MemoryLog();
  const storing = new Storing({ log, fields: {}, component: 'mqtt', retryMs: 0 });
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

  beforeEach(() => log.lines.splice(0));

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

  it('ends with the link', async () => {
    link.abort();
    await expect(run([])).rejects.toThrow('aborted');
  });
});
