import { connectAsync, type MqttClient } from 'mqtt';
import type { BrokerTarget } from '../../src/cli/simulate/broker/brokerFlags';
import { runMqttDevices } from '../../src/cli/simulate/mqtt/mqttDevices';
import { createSimulatedDevices } from '../../src/cli/simulate/simulatedDevices';
import { TestCa } from '../support/brokerPki';
import { Mosquitto, type MosquittoOptions } from '../support/mosquitto';

let broker: Mosquitto | undefined;
let stop: AbortController;
let running: Promise<void>;
let client: MqttClient | undefined;

beforeEach(() => {
  [stop, running, client] = [new AbortController(), Promise.resolve(), undefined];
});
afterEach(async () => {
  stop.abort();
  await running.catch(() => {});
  await client?.endAsync(true);
  await broker?.remove();
});

/** Resolves when the devices are connected and rejects when they cannot connect. */
async function runSimulatedDevices(options: MosquittoOptions, target: Partial<BrokerTarget> = {}): Promise<Mosquitto> {
  const started = (broker = await Mosquitto.start(options));
  const connected = new Promise<void>((resolve, reject) => {
    const signIn = {
      url: options.webSocket ? started.webSocketUrl : started.url,
      username: undefined,
      password: undefined,
      ca: undefined,
      certificate: undefined,
      privateKey: undefined,
      ...target,
    };
    const topics = {
      uplinkTopic: '{clientDeviceId}/up',
      commandTopic: '{clientDeviceId}/down',
      answerTopic: '{clientDeviceId}/answer',
    };
    running = runMqttDevices(
      {
        broker: signIn,
        devices: createSimulatedDevices(['valve-1']),
        ...topics,
        uplinkIntervalMs: 0,
        answerDelayMs: 0,
        answer: 'accept',
      },
      stop.signal,
      ({ event, fields }) => {
        if (event === 'broker.connected') resolve();
        if (event === 'broker.disconnected') reject(new Error(String(fields['message'])));
      },
    );
    running.catch(reject);
  });
  await connected;
  return started;
}

it('simulated devices answer at the response topic of MQTT 5 with the correlation data of the command', async () => {
  const { url } = await runSimulatedDevices({});
  const caller = (client = await connectAsync(url, { protocolVersion: 5 }));
  await caller.subscribeAsync('answers', { qos: 1 });
  const answer = new Promise<{ payload: unknown; correlation: string | undefined }>((resolve) => {
    caller.on('message', (_topic, payload, { properties }) =>
      resolve({ payload: JSON.parse(payload.toString()), correlation: properties?.correlationData?.toString() }),
    );
  });
  await caller.publishAsync('valve-1/down', '{"position": 40}', {
    qos: 1,
    properties: { responseTopic: 'answers', correlationData: Buffer.from('e1') },
  });
  expect(await answer).toEqual({ payload: { status: 'ok', message: 'position is 40' }, correlation: 'e1' });
});

it('simulated devices connect with a password, over TLS, and with their own certificate', async () => {
  const ca = await TestCa.create();
  const server = await ca.forServer();
  const own = await ca.forClient('valves');
  await runSimulatedDevices(
    { users: { valves: 'secret' }, tls: { ca: ca.cert, ...server, clientCa: ca.cert } },
    { username: 'valves', password: 'secret', ca: ca.cert, certificate: own.cert, privateKey: own.key },
  );
});

it('simulated devices connect over WebSocket', async () => {
  await runSimulatedDevices({ webSocket: true });
});

it.each([
  ['a wrong password', { username: 'valves', password: 'wrong' }, /rejected the simulation/],
  ['no password', {}, /rejected the simulation/],
])('simulated devices report why the broker rejects them: %s', async (_, target, message) => {
  await expect(runSimulatedDevices({ users: { valves: 'secret' } }, target)).rejects.toThrow(message);
});

it('simulated devices refuse a broker whose certificate they cannot verify', async () => {
  const ca = await TestCa.create();
  await expect(
    runSimulatedDevices(
      { tls: { ca: ca.cert, ...(await ca.forServer()) } },
      { ca: (await TestCa.create('Another CA')).cert },
    ),
  ).rejects.toThrow(/certificate/);
});
