import { ClientIdConflictDetector } from '../../src/connections/connectors/broker/clientIdConflictDetector';
import { TestClock } from '../support/testClock';

const MINUTE = 60_000;

describe('two clients with one client id', () => {
  let clock: TestClock;
  let detector: ClientIdConflictDetector;

  /** Runs a session of this duration that ends with this code. */
  function runSession(code: string, livedMs = 1000): boolean {
    detector.sessionStarted();
    clock.advance(livedMs);
    return detector.sessionEnded(code);
  }

  beforeEach(() => {
    clock = new TestClock();
    detector = new ClientIdConflictDetector(clock);
  });

  it('are detected by two takeovers in five minutes, and by each one after that', () => {
    expect([
      runSession('session_taken_over', MINUTE),
      runSession('session_taken_over', MINUTE),
      runSession('session_taken_over', MINUTE),
    ]).toEqual([false, true, true]);
    clock.advance(5 * MINUTE);
    expect(runSession('session_taken_over')).toBe(false);
  });

  it('are detected by three sessions in five minutes that are closed right after they start', () => {
    expect([runSession('closed'), runSession('connection_lost'), runSession('closed'), runSession('closed')]).toEqual([
      false,
      false,
      true,
      true,
    ]);
    clock.advance(5 * MINUTE);
    expect([runSession('closed'), runSession('closed'), runSession('closed')]).toEqual([false, false, true]);
  });

  it.each([
    ['long sessions', 'closed', 10_000],
    ['a broker that stops', 'broker_stopping', 1000],
    ['a dead link', 'keepalive_timeout', 1000],
  ])('are not assumed for %s', (_, code, livedMs) => {
    expect([1, 2, 3, 4].map(() => runSession(code, livedMs))).toEqual([false, false, false, false]);
  });

  it('are not assumed for failed connection attempts', () => {
    runSession('closed');
    expect([1, 2, 3, 4].map(() => detector.sessionEnded('closed'))).toEqual([false, false, false, false]);
  });
});
