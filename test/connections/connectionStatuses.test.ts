import { ConnectionStatuses } from '../../src/connections';
import { TestClock } from '../support/testClock';

const DAY = 24 * 3_600_000;

describe('connection statuses', () => {
  let clock: TestClock;
  let statuses: ConnectionStatuses;
  let notifiedIds: string[];
  beforeEach(() => {
    clock = new TestClock();
    statuses = new ConnectionStatuses(clock);
    notifiedIds = [];
    statuses.watch((id) => notifiedIds.push(id));
  });
  const status = (enabled = true) => statuses.getStatus({ id: 'c', enabled });

  it('have no time before the first event', () => {
    expect(status()).toEqual({
      state: 'disconnected',
      since: undefined,
      lastError: '',
      lastMessageAt: undefined,
      warnings: [],
      dataWarnings: [],
      software: '',
    });
    expect(status(false)).toMatchObject({ state: 'disabled', since: undefined });
  });

  it('change from connecting to connected, disconnected and back, and keep the error until the connection works', () => {
    const start = clock.now();
    statuses.markConnecting('c');
    expect(status()).toMatchObject({ state: 'connecting', since: start, lastError: '' });
    clock.advance(10);
    statuses.markDetached('c', 'the host is not known');
    expect(status()).toMatchObject({ state: 'disconnected', since: start + 10, lastError: 'the host is not known' });
    clock.advance(10);
    statuses.markDetached('c', 'nobody listens there');
    expect(status()).toMatchObject({ since: start + 10, lastError: 'nobody listens there' });
    statuses.markAttached('c');
    expect(status()).toMatchObject({ state: 'connected', since: start + 20, lastError: '', lastMessageAt: undefined });
    clock.advance(10);
    statuses.markDetached('c', '');
    expect(status()).toMatchObject({ state: 'disconnected', since: start + 30, lastError: '' });
  });

  it('report what a person has to change, until the connection works or is retried', () => {
    const start = clock.now();
    statuses.markFailed('c', 'the password is refused');
    clock.advance(60_000);
    statuses.markFailed('c', 'the password is refused');
    expect(status()).toMatchObject({ state: 'error', since: start, lastError: 'the password is refused' });
    statuses.markDetached('c', '');
    expect(status()).toMatchObject({ state: 'error', lastError: 'the password is refused' });
    statuses.markDetached('c', 'gone');
    expect(status()).toMatchObject({ state: 'disconnected', lastError: 'gone' });
    statuses.markFailed('c', 'again');
    statuses.markConnecting('c');
    expect(status()).toMatchObject({ state: 'connecting', since: clock.now(), lastError: '' });
  });

  it('are degraded by warnings, since the first of them', () => {
    const start = clock.now();
    statuses.markAttached('c');
    clock.advance(10);
    statuses.setWarnings('c', ['no_message_expiry']);
    clock.advance(10);
    statuses.setWarnings('c', ['no_message_expiry', 'integration_qos_0']);
    expect(status()).toMatchObject({
      state: 'degraded',
      since: start + 10,
      warnings: ['no_message_expiry', 'integration_qos_0'],
    });
    statuses.markConflict('c');
    expect(status()).toMatchObject({
      state: 'degraded',
      since: start + 10,
      warnings: ['contested', 'no_message_expiry', 'integration_qos_0'],
    });
    statuses.setWarnings('c', []);
    expect(status()).toMatchObject({ state: 'degraded', since: start + 20, warnings: ['contested'] });
    clock.advance(300_000);
    expect(status()).toMatchObject({ state: 'connected', since: start + 300_020, warnings: [] });
    statuses.markDetached('c', 'gone');
    statuses.setWarnings('c', ['no_message_expiry']);
    expect(status()).toMatchObject({ state: 'disconnected', warnings: ['no_message_expiry'] });
  });

  it('of a disabled connection show neither errors nor warnings', () => {
    statuses.markAttached('c');
    statuses.setWarnings('c', ['no_message_expiry']);
    clock.advance(10);
    statuses.markDetached('c', 'gone');
    statuses.markToggled('c');
    expect(status(false)).toMatchObject({ state: 'disabled', since: clock.now(), lastError: '', warnings: [] });
    expect(status()).toMatchObject({ state: 'disconnected', lastError: '' });
  });

  it('are not created by late events of a deleted connection', () => {
    statuses.markAttached('c');
    statuses.remove('c');
    statuses.markDetached('c', 'gone');
    statuses.setWarnings('c', ['x']);
    statuses.addDataWarning({ id: 'c', connectorId: 'mqtt' }, 'uplinks_rejected', { reason: 'x', example: '' });
    statuses.markMessageReceived('c');
    statuses.markConnecting('c');
    statuses.markAttached('c');
    statuses.markFailed('c', 'refused');
    statuses.markToggled('c');
    expect(statuses.markConflict('c')).toBe(false);
    expect(status()).toMatchObject({ state: 'disconnected', since: undefined, lastError: '' });
  });

  it('count what could not be read, with the last example, until the connection is changed', () => {
    const connection = { id: 'c', connectorId: 'mqtt' };
    statuses.markAttached('c');
    clock.advance(10);
    const start = clock.now();
    for (const n of [1, 2, 3]) {
      const reason = `broken: in line\n${n}`;
      statuses.addDataWarning(connection, 'uplinks_unreadable', { topic: `a/${n}\u202e`, reason, example: `{${n}` });
      clock.advance(10);
    }
    statuses.addDataWarning(connection, 'uplinks_rejected', { clientDeviceId: 'd', reason: 'x: y', example: '' });
    expect(status()).toMatchObject({
      state: 'degraded',
      since: start,
      warnings: ['uplinks_unreadable', 'uplinks_rejected'],
      dataWarnings: [
        {
          code: 'uplinks_unreadable',
          count: 3,
          lastAt: start + 20,
          topic: 'a/3\\u202e',
          clientDeviceId: undefined,
          reason: 'broken: in line\\u000a3',
          example: '{3',
        },
        { code: 'uplinks_rejected', count: 1, topic: undefined, clientDeviceId: 'd' },
      ],
    });
    expect(notifiedIds).toEqual(['c', 'c', 'c']); // attached, and each new warning
    expect(status(false)).toMatchObject({ warnings: [], dataWarnings: [] });
    statuses.clearDataWarnings('c');
    expect(status()).toMatchObject({ warnings: [], dataWarnings: [] });
    expect(Object.fromEntries(statuses.dataWarningCounts.entries())).toMatchObject({
      'mqtt uplinks_unreadable': 3,
      'mqtt uplinks_rejected': 1,
      'gateway uplinks_rejected': 0,
    });
  });

  it('end a data warning after 24 quiet hours, and count on when it returns', () => {
    const connection = { id: 'c', connectorId: 'mqtt' };
    const warn = (): void =>
      statuses.addDataWarning(connection, 'uplinks_unreadable', { reason: 'json_invalid: x', example: '' });
    statuses.markAttached('c');
    warn();
    clock.advance(DAY - 1);
    warn();
    clock.advance(DAY - 1);
    expect(status()).toMatchObject({ state: 'degraded', warnings: ['uplinks_unreadable'] });
    clock.advance(1);
    const ended = clock.now();
    clock.advance(10);
    expect(status()).toMatchObject({ state: 'connected', since: ended, warnings: [], dataWarnings: [] });
    notifiedIds.splice(0);
    warn();
    expect(notifiedIds).toEqual(['c']);
    expect(status()).toMatchObject({ state: 'degraded', since: clock.now(), dataWarnings: [{ count: 3 }] });
    statuses.clearDataWarnings('c');
    warn();
    expect(status()).toMatchObject({ dataWarnings: [{ count: 1 }] });
  });

  it('notify their listeners of each change, and of messages once a second', () => {
    statuses.markConnecting('c');
    statuses.markAttached('c');
    statuses.setWarnings('c', ['x']);
    statuses.setWarnings('c', ['x']);
    expect(notifiedIds).toEqual(['c', 'c', 'c']);
    for (let n = 0; n < 30; n += 1) {
      clock.advance(100);
      statuses.markMessageReceived('c');
    }
    expect(notifiedIds).toHaveLength(6);
    expect(status()).toMatchObject({ lastMessageAt: clock.now() });
    statuses.remove('c');
    expect(notifiedIds).toHaveLength(7);
  });

  it('do not notify listeners that unsubscribed', () => {
    const cancelledIds: string[] = [];
    statuses.watch((id) => cancelledIds.push(id))();
    statuses.markAttached('c');
    expect([cancelledIds, notifiedIds]).toEqual([[], ['c']]);
  });
});
