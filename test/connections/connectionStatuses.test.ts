import { ConnectionStatuses } from '../../src/connections';
import { TestClock } from '../support/testClock';

describe('statuses of connections', () => {
  let clock: TestClock;
  let statuses: ConnectionStatuses;
  let told: string[];
  beforeEach(() => {
    clock = new TestClock();
    statuses = new ConnectionStatuses(clock);
    told = [];
    statuses.watch((id) => told.push(id));
  });
  const status = (enabled = true) => statuses.of({ id: 'c', enabled });

  it('are of no time before anything was seen', () => {
    expect(status()).toEqual({ state: 'disconnected', since: undefined, lastError: '', lastMessageAt: undefined, warnings: [], software: '' });
    expect(status(false)).toMatchObject({ state: 'disabled', since: undefined });
  });

  it('go from connecting to connected, away and back, and keep the error until it works', () => {
    const start = clock.now();
    statuses.connecting('c');
    expect(status()).toMatchObject({ state: 'connecting', since: start, lastError: '' });
    clock.advance(10);
    statuses.detached('c', 'the host is not known');
    expect(status()).toMatchObject({ state: 'disconnected', since: start + 10, lastError: 'the host is not known' });
    clock.advance(10);
    statuses.detached('c', 'nobody listens there');
    expect(status()).toMatchObject({ since: start + 10, lastError: 'nobody listens there' });
    statuses.attached('c');
    expect(status()).toMatchObject({ state: 'connected', since: start + 20, lastError: '', lastMessageAt: undefined });
    clock.advance(10);
    statuses.detached('c', '');
    expect(status()).toMatchObject({ state: 'disconnected', since: start + 30, lastError: '' });
  });

  it('tell what somebody has to change, until it works or is tried anew', () => {
    const start = clock.now();
    statuses.failed('c', 'the password is refused');
    clock.advance(60_000);
    statuses.failed('c', 'the password is refused');
    expect(status()).toMatchObject({ state: 'error', since: start, lastError: 'the password is refused' });
    statuses.detached('c', '');
    expect(status()).toMatchObject({ state: 'error', lastError: 'the password is refused' });
    statuses.detached('c', 'gone');
    expect(status()).toMatchObject({ state: 'disconnected', lastError: 'gone' });
    statuses.failed('c', 'again');
    statuses.connecting('c');
    expect(status()).toMatchObject({ state: 'connecting', since: clock.now(), lastError: '' });
  });

  it('are degraded by warnings, since the first of them', () => {
    const start = clock.now();
    statuses.attached('c');
    clock.advance(10);
    statuses.warn('c', ['no_message_expiry']);
    clock.advance(10);
    statuses.warn('c', ['no_message_expiry', 'integration_qos_0']);
    expect(status()).toMatchObject({ state: 'degraded', since: start + 10, warnings: ['no_message_expiry', 'integration_qos_0'] });
    statuses.contested('c');
    expect(status()).toMatchObject({ state: 'degraded', since: start + 10, warnings: ['contested', 'no_message_expiry', 'integration_qos_0'] });
    statuses.warn('c', []);
    expect(status()).toMatchObject({ state: 'degraded', since: start + 20, warnings: ['contested'] });
    clock.advance(300_000);
    expect(status()).toMatchObject({ state: 'connected', since: start + 300_020, warnings: [] });
    statuses.detached('c', 'gone');
    statuses.warn('c', ['no_message_expiry']);
    expect(status()).toMatchObject({ state: 'disconnected', warnings: ['no_message_expiry'] });
  });

  it('of one that is switched off show neither errors nor warnings', () => {
    statuses.attached('c');
    statuses.warn('c', ['no_message_expiry']);
    clock.advance(10);
    statuses.detached('c', 'gone');
    statuses.switched('c');
    expect(status(false)).toMatchObject({ state: 'disabled', since: clock.now(), lastError: '', warnings: [] });
    expect(status()).toMatchObject({ state: 'disconnected', lastError: '' });
  });

  it('are not made by what comes of a deleted connection late', () => {
    statuses.attached('c');
    statuses.forget('c');
    statuses.detached('c', 'gone');
    statuses.warn('c', ['x']);
    statuses.messageReceived('c');
    statuses.connecting('c');
    statuses.attached('c');
    statuses.failed('c', 'refused');
    statuses.switched('c');
    expect(statuses.contested('c')).toBe(false);
    expect(status()).toMatchObject({ state: 'disconnected', since: undefined, lastError: '' });
  });

  it('tell their listeners of each change, of messages once a second', () => {
    statuses.connecting('c');
    statuses.attached('c');
    statuses.warn('c', ['x']);
    statuses.warn('c', ['x']);
    expect(told).toEqual(['c', 'c', 'c']);
    for (let n = 0; n < 30; n += 1) {
      clock.advance(100);
      statuses.messageReceived('c');
    }
    expect(told).toHaveLength(6);
    expect(status()).toMatchObject({ lastMessageAt: clock.now() });
    statuses.forget('c');
    expect(told).toHaveLength(7);
  });

  it('leave those alone that listen no more', () => {
    const heard: string[] = [];
    statuses.watch((id) => heard.push(id))();
    statuses.attached('c');
    expect([heard, told]).toEqual([[], ['c']]);
  });
});
