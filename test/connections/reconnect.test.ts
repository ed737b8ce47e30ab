import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { BackOff } from '../../src/connections/connectors/broker/backOff';
import { Mqtt5Broker } from '../support/mqtt5Broker';
import { MqttFixture, TOPICS } from './mqttFixture';

const HOUR_MS = 3_600_000;
/** Delays that no test waits for. */
const NEVER = { firstMs: HOUR_MS, maxMs: HOUR_MS, fatalMs: HOUR_MS, waitingMs: 0 };

describe('the delay between two connection attempts', () => {
  const failure = { startedAt: 0, endedAt: 0, wasAccepted: false, isFatal: false };
  const at = (time: number) => ({ ...failure, startedAt: time, endedAt: time });

  it('is at most 5 s for the first five minutes, and at most 30 s later', () => {
    const backOff = new BackOff({ random: () => 1 });
    expect([1, 2, 3, 4, 5].map(() => backOff.next(failure))).toEqual([1000, 2000, 4000, 5000, 5000]);
    expect(backOff.next(at(5 * 60_000 - 1))).toBe(5000);
    expect(backOff.next(at(5 * 60_000))).toBe(30_000);
  });

  it('is a minute after a fault that a person must fix', () => {
    expect(new BackOff({ random: () => 1 }).next({ ...failure, isFatal: true })).toBe(60_000);
  });

  it('includes the duration of a failed attempt', () => {
    const backOff = new BackOff({ random: () => 1 });
    for (let n = 0; n < 3; n++) backOff.next(failure);
    expect(backOff.next({ ...failure, endedAt: 3000 })).toBe(2000);
    expect(backOff.next({ ...failure, endedAt: 10_000 })).toBe(500);
  });

  it('starts again with the first one after a session of some length', () => {
    const backOff = new BackOff({ random: () => 1 });
    for (let n = 0; n < 5; n++) backOff.next(failure);
    expect(backOff.next({ ...failure, endedAt: 9999, wasAccepted: true })).toBe(5000);
    expect(backOff.next({ ...failure, endedAt: 10_000, wasAccepted: true })).toBe(1000);
  });

  it('is at most a second since the start of the last attempt while a command waits', () => {
    const backOff = new BackOff();
    expect(backOff.nextWhileWaiting({ startedAt: 0, endedAt: 300 })).toBe(700);
    expect(backOff.nextWhileWaiting({ startedAt: 0, endedAt: 3000 })).toBe(0);
  });
});

describe('a connection', () => {
  let broker: Mqtt5Broker;
  const fixtures: MqttFixture[] = [];

  beforeEach(async () => {
    broker = await new Mqtt5Broker().start();
  });

  afterEach(async () => {
    await Promise.all(fixtures.splice(0).map(async (fixture) => await fixture.connector.stop()));
    await broker.stop();
  });

  function openFixture(url: string, backoff: object): MqttFixture {
    const fixture = new MqttFixture({ url, keepaliveSeconds: 30, ...TOPICS }, backoff);
    fixtures.push(fixture);
    fixture.open();
    return fixture;
  }

  it('that waits for its broker tries at once when a command waits', async () => {
    await broker.stop();
    const fixture = openFixture(broker.url, NEVER);
    await fixture.state('disconnected');
    await broker.start();
    fixture.connector.connectSoon(fixture.connectionId);
    await fixture.attached();
    expect(broker.connects).toHaveLength(1);
  });

  it('tries again at once if the command came during the last attempt', async () => {
    const fixture = openFixture(broker.url, NEVER);
    broker.onConnect = () => {
      broker.onConnect = () => 0;
      fixture.connector.connectSoon(fixture.connectionId);
      return 0x88;
    };
    await fixture.attached();
    expect(broker.connects).toHaveLength(2);
  });

  it('with a wrong password is not tried again for a command', async () => {
    broker.onConnect = () => 0x86;
    const fixture = openFixture(broker.url, NEVER);
    await fixture.state('error');
    broker.onConnect = () => 0;
    for (let n = 0; n < 10; n++) fixture.connector.connectSoon(fixture.connectionId);
    await openFixture(broker.url, NEVER).attached(); // another connection, which takes longer than an attempt to start
    expect(broker.connects).toHaveLength(2);
  });

  it('gives up early on a host that does not respond over TCP', async () => {
    // A frozen process with a full accept queue: the system drops further connection requests.
    const script = `const s = require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(s.address().port))`;
    const frozen = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [port] = (await once(frozen.stdout, 'data')) as [Buffer];
    frozen.kill('SIGSTOP');
    const fillers = Array.from({ length: 4 }, () =>
      connect(Number(port.toString()), '127.0.0.1').on('error', () => {}),
    );
    await once(fillers[0] as (typeof fillers)[0], 'connect');
    const fixture = openFixture(`mqtt://127.0.0.1:${port.toString().trim()}`, NEVER);
    expect((await fixture.state('disconnected')).lastError).toContain(
      'the broker does not respond; check that no firewall',
    );
    for (const filler of fillers) filler.destroy();
    frozen.kill('SIGKILL');
    await once(frozen, 'close');
  });
});
