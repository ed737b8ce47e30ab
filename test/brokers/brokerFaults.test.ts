import { runMqttDevices } from '../../src/cli/simulate/mqtt/mqttDevices';
import type { SimulationEvent } from '../../src/cli/simulate/simulation';
import { createSimulatedDevices } from '../../src/cli/simulate/simulatedDevices';
import { RESPONSE_TOPIC_ANSWERS, BrokerSite, DEVICE_TOPICS, type Valve } from './brokerSite';
import { TcpProxy } from './tcpProxy';

let site: BrokerSite | undefined;

afterEach(async () => {
  await site?.stop();
  site = undefined;
});

const FINAL = [
  'converged',
  'accepted_no_l4',
  'unconfirmed',
  'protocol_rejected',
  'transport_unreachable',
  'transport_rejected',
];
const VALVES = ['valve-1', 'valve-2', 'valve-3', 'valve-4'];
const times = { connectMs: 2000, backoffMs: () => 50 };

/** Runs the simulated valves until the site stops and returns their events. */
async function runSimulatedDevices(at: BrokerSite): Promise<SimulationEvent[]> {
  const stop = new AbortController();
  const events: SimulationEvent[] = [];
  await new Promise<void>((resolve, reject) => {
    const running = runMqttDevices(
      {
        broker: at.getTarget(),
        devices: createSimulatedDevices(VALVES),
        ...DEVICE_TOPICS,
        uplinkIntervalMs: 200,
        answerDelayMs: 30,
        answer: 'accept',
        times,
      },
      stop.signal,
      (event) => {
        events.push(event);
        if (event.event === 'broker.connected') resolve();
      },
    );
    running.catch(reject);
    at.onStop(async () => {
      stop.abort();
      await running;
    });
  });
  return events;
}

/** Each command has a unique position, so that its effect can be identified. */
const POSITIONS = Array.from({ length: 24 }, (_, at) => at + 1);

describe.each([
  ['restarts', async (at: BrokerSite) => await at.broker.stop()],
  ['is killed', async (at: BrokerSite) => await at.broker.kill()],
])('while the broker %s', (_, end) => {
  it('no command is lost and none runs twice', async () => {
    site = await BrokerSite.start();
    const events = await runSimulatedDevices(site);
    const connectionId = await site.createMqttConnection(RESPONSE_TOPIC_ANSWERS, {
      ackTimeout: 2,
      deliveryTimeout: 30,
    });
    await site.waitForStatus(connectionId, 'connected');
    const valves: Valve[] = [];
    for (const clientDeviceId of VALVES)
      valves.push(await site.createValve(connectionId, { clientDeviceId, command: { convergenceTimeout: 5 } }));
    const at = site;
    const executions = await Promise.all(
      POSITIONS.map(async (position, n) => await at.execute(valves[n % valves.length] as Valve, position)),
    );
    // Waits until the executions are in progress.
    await site.waitForState(executions[0] as string, 'delivered', 'accepted', ...FINAL);
    await end(site);
    await site.broker.restart();
    const reports = await Promise.all(executions.map(async (id) => await at.waitForState(id, ...FINAL)));
    await site.waitForStatus(connectionId, 'connected');
    const done = POSITIONS.map(
      (position) =>
        events.filter(
          ({ event, fields }) =>
            event === 'command.taken' && (fields['payload'] as { position?: unknown }).position === position,
        ).length,
    );
    expect(done.filter((times) => times > 1)).toEqual([]);
    // A command that was reported as done was done, and one that was reported as not done was not. Only `unconfirmed`
    // leaves it open.
    expect(
      reports
        .map(({ state }, n) => [state, done[n]])
        .filter(([state, times]) =>
          state === 'converged' || state === 'accepted_no_l4' ? times !== 1 : state !== 'unconfirmed',
        ),
    ).toEqual([]);
    // Commands that had not been sent left when the broker was available again.
    expect(reports.filter(({ state }) => state === 'converged').length).toBeGreaterThan(POSITIONS.length / 2);
    await site.waitForState(await site.execute(valves[0] as Valve, 99), 'converged');
  });
});

it('detects a link that went silent and reconnects automatically', async () => {
  site = await BrokerSite.start();
  const proxy = await TcpProxy.start(site.broker.port);
  site.onStop(async () => await proxy.stop());
  const connectionId = await site.createMqttConnection({
    ...RESPONSE_TOPIC_ANSWERS,
    url: `mqtt://localhost:${proxy.port}`,
    keepaliveSeconds: 5,
  });
  await site.waitForStatus(connectionId, 'connected');
  proxy.swallow();
  expect((await site.waitForStatus(connectionId, 'disconnected'))['lastError']).not.toBe('');
  proxy.restore();
  await site.waitForStatus(connectionId, 'connected');
  await runSimulatedDevices(site);
  await site.waitForState(await site.execute(await site.createValve(connectionId), 40), 'converged');
});

it('starts without its broker and works when the broker becomes available', async () => {
  site = await BrokerSite.start();
  await site.broker.stop();
  const connectionId = await site.createMqttConnection(RESPONSE_TOPIC_ANSWERS);
  await site.waitForStatus(connectionId, 'disconnected');
  const executionId = await site.execute(await site.createValve(connectionId), 40);
  expect(await site.getExecution(executionId)).toMatchObject({ state: 'enqueued' });
  await site.broker.restart();
  await runSimulatedDevices(site);
  await site.waitForState(executionId, 'converged');
});
