import { RetryingWriter } from '../../src/connections/connectors/broker/retryingWriter';
import { DomainError, notFound } from '../../src/kernel/errors';
import { MemoryLog } from '../support/edge';
import { TestClock } from '../support/testClock';

const unavailable = new DomainError('unavailable', 'database_unavailable', 'away');

describe('storing messages of a link', () => {
  const log = new MemoryLog();
  const clock = new TestClock();
  const stalledStates: boolean[] = [];
  const writer: RetryingWriter = new RetryingWriter({
    clock,
    log,
    fields: {},
    component: 'mqtt',
    retryMs: 0,
    onStalled: () => stalledStates.push(writer.isStalled),
  });
  const link = new AbortController();

  async function run(failures: readonly Error[]) {
    const left = [...failures];
    let tries = 0;
    const outcome = await writer.run(link.signal, async () => {
      tries += 1;
      const error = left.shift();
      if (error) throw error;
    });
    return { outcome, tries };
  }

  beforeEach(() => {
    log.lines.splice(0);
    stalledStates.splice(0);
  });

  it('continues while the database is unavailable, and logs it rarely', async () => {
    expect(await run(Array.from({ length: 40 }, () => unavailable))).toEqual({ outcome: 'done', tries: 41 });
    expect(log.of('mqtt.write_retry').map(({ failures }) => failures)).toEqual([1, 2, 4, 8, 16, 32]);
  });

  it('discards what can never be stored, however often the database was unavailable in the meantime', async () => {
    const wrong = Object.assign(new Error('invalid byte sequence'), { code: '22021' });
    expect(await run([wrong, unavailable, wrong, unavailable, unavailable, wrong, wrong, wrong, wrong])).toEqual({
      outcome: 'given_up',
      tries: 8,
    });
    expect(log.of('mqtt.write_failed')).toEqual([{ given_up: 1, tries: 5, err: wrong }]);
  });

  it('retries an incidental failure', async () => {
    expect(await run([new Error('serialization'), new Error('serialization')])).toEqual({ outcome: 'done', tries: 3 });
    expect(log.lines).toEqual([]);
  });

  it('is complete when the connection is deleted', async () => {
    expect(await run([notFound('connection', 'x')])).toEqual({ outcome: 'gone', tries: 1 });
  });

  it('reports when messages wait for the database for some seconds, and when none do any longer', async () => {
    const waiting = [3, 2].map(async (attempts) => {
      await writer.run(link.signal, async () => {
        attempts -= 1;
        clock.advance(5000);
        if (attempts >= 0) throw unavailable;
      });
    });
    await run([]); // Other messages that are stored, or were stored already, do not prove that the waiting ones are.
    await Promise.all(waiting);
    expect(stalledStates).toEqual([true, false]);
    await run([unavailable, unavailable, unavailable]);
    expect(stalledStates).toHaveLength(2);
  });

  it('reports nothing more about messages of a lost link', async () => {
    const lost = new AbortController();
    let tries = 0;
    const waiting = writer.run(lost.signal, async () => {
      tries += 1;
      if (tries === 3) lost.abort();
      clock.advance(5000);
      throw unavailable;
    });
    await expect(waiting).rejects.toThrow('aborted');
    expect(stalledStates).toEqual([true, false]);
  });

  it('ends with the link', async () => {
    link.abort();
    await expect(run([])).rejects.toThrow('aborted');
  });
});
