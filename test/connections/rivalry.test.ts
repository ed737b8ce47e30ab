import { Rivalry } from '../../src/connections/connectors/broker/rivalry';
import { TestClock } from '../support/testClock';

const MINUTE = 60_000;

describe('two clients with one client id', () => {
  let clock: TestClock;
  let rivalry: Rivalry;

  /** A session that lasts so long, and how it ends. */
  function session(code: string, livedMs = 1000): boolean {
    rivalry.up();
    clock.advance(livedMs);
    return rivalry.ended(code);
  }

  beforeEach(() => {
    clock = new TestClock();
    rivalry = new Rivalry(clock);
  });

  it('show by two takeovers in five minutes, and by each one after that', () => {
    expect([session('session_taken_over', MINUTE), session('session_taken_over', MINUTE), session('session_taken_over', MINUTE)]).toEqual([false, true, true]);
    clock.advance(5 * MINUTE);
    expect(session('session_taken_over')).toBe(false);
  });

  it('show by three sessions in five minutes that are cut off as soon as they are up', () => {
    expect([session('closed'), session('connection_lost'), session('closed'), session('closed')]).toEqual([false, false, true, true]);
    clock.advance(5 * MINUTE);
    expect([session('closed'), session('closed'), session('closed')]).toEqual([false, false, true]);
  });

  it.each([
    ['sessions that lasted', 'closed', 10_000],
    ['a broker that stops', 'broker_stopping', 1000],
    ['a dead link', 'keepalive_timeout', 1000],
  ])('are not %s', (_, code, livedMs) => {
    expect([1, 2, 3, 4].map(() => session(code, livedMs))).toEqual([false, false, false, false]);
  });

  it('are not attempts that came to nothing', () => {
    session('closed');
    expect([1, 2, 3, 4].map(() => rivalry.ended('closed'))).toEqual([false, false, false, false]);
  });
});
