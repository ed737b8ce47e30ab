import { runMqttDevices } from '../../src/cli/simulate/mqtt/mqttDevices';
import type { PlayedEvent } from '../../src/cli/simulate/playing';
import { simulatedDevices } from '../../src/cli/simulate/simulatedDevices';
import { ANSWERS, BrokerSite, DEVICE_TOPICS, type Valve } from './brokerSite';
import { TcpProxy } from './tcpProxy';

let site: BrokerSite | undefined;

afterEach(async () => {
  await site?.stop();
  site = undefined;
});

const FINAL = ['converged', 'accepted_no_l4', 'unconfirmed', 'protocol_rejected', 'transport_unreachable', 'transport_rejected'];
const VALVES = ['valve-1', 'valve-2', 'valve-3', 'valve-4'];
const times = { connectMs: 2000, backoffMs: () => 50 };

/** The simulated valves, until the site stops; what they did. */
async function play(at: BrokerSite): Promise<PlayedEvent[]> {
  const stop = new AbortController();
  const events: PlayedEvent[] = [];
  await new Promise<void>((resolve, reject) => {
    const running = runMqttDevices({ broker: at.target(), devices: simulatedDevices(VALVES), ...DEVICE_TOPICS, uplinkIntervalMs: 200, answerDelayMs: 30, answer: 'accept', times }, stop.signal, (event) => {
      events.push(event);
      if (event.event === 'broker.connected') resolve();
    });
    running.catch(reject);
    at.onStop(async () => {
      stop.abort();
      await running;
    });
  });
  return events;
}

/** A position for each command that no other has, so that what was done can be told apart. */
const POSITIONS = Array.from({ length: 24 }, (_, at) => at + 1);

describe.each([
  ['restarts', async (at: BrokerSite) => await at.broker.stop()],
  ['is killed', async (at: BrokerSite) => await at.broker.kill()],
])('while the broker %s', (_, end) => {
  it('no command is lost and none is done twice', async () => {
    site = await BrokerSite.start();
    const events = await play(site);
    const connectionId = await site.mqtt(ANSWERS, { ackTimeout: 2, deliveryTimeout: 30 });
    await site.status(connectionId, 'connected');
    const valves: Valve[] = [];
    for (const clientDeviceId of VALVES) valves.push(await site.valve(connectionId, { clientDeviceId, command: { convergenceTimeout: 5 } }));
    const at = site;
    const executions = await Promise.all(POSITIONS.map(async (position, n) => await at.execute(valves[n % valves.length] as Valve, position)));
    await site.reaches(executions[0] as string, 'delivered', 'accepted', ...FINAL); // in the middle of it
    await end(site);
    await site.broker.restart();
    const told = await Promise.all(executions.map(async (id) => await at.reaches(id, ...FINAL)));
    await site.status(connectionId, 'connected');
    const done = POSITIONS.map((position) => events.filter(({ event, fields }) => event === 'command.taken' && (fields['payload'] as { position?: unknown }).position === position).length);
    expect(done.filter((times) => times > 1)).toEqual([]);
    // What says that it was done was done, what says that it was not was not; only `unconfirmed` leaves it open.
    expect(told.map(({ state }, n) => [state, done[n]]).filter(([state, times]) => (state === 'converged' || state === 'accepted_no_l4' ? times !== 1 : state !== 'unconfirmed'))).toEqual([]);
    // Those that had not left went out when the broker was back.
    expect(told.filter(({ state }) => state === 'converged').length).toBeGreaterThan(POSITIONS.length / 2);
    await site.reaches(await site.execute(valves[0] as Valve, 99), 'converged');
  });
});

it('notices a link that went dead without a word, and comes back by itself', async () => {
  site = await BrokerSite.start();
  const proxy = await TcpProxy.start(site.broker.port);
  site.onStop(async () => await proxy.stop());
  const connectionId = await site.mqtt({ ...ANSWERS, url: `mqtt://localhost:${proxy.port}`, keepaliveSeconds: 5 });
  await site.status(connectionId, 'connected');
  proxy.swallow();
  expect((await site.status(connectionId, 'disconnected'))['lastError']).not.toBe('');
  proxy.mend();
  await site.status(connectionId, 'connected');
  await play(site);
  await site.reaches(await site.execute(await site.valve(connectionId), 40), 'converged');
});

it('starts without its broker, and works when that is there', async () => {
  site = await BrokerSite.start();
  await site.broker.stop();
  const connectionId = await site.mqtt(ANSWERS);
  await site.status(connectionId, 'disconnected');
  const executionId = await site.execute(await site.valve(connectionId), 40);
  expect(await site.execution(executionId)).toMatchObject({ state: 'enqueued' });
  await site.broker.restart();
  await play(site);
  await site.reaches(executionId, 'converged');
});
