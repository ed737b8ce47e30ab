import { createLorawanDevices } from '../../src/cli/simulate/chirpStack/lorawanDevices';
import { runNetworkServer } from '../../src/cli/simulate/chirpStack/networkServer';
import { ChirpStackServer } from '../support/chirpStack/chirpStackServer';
import { BrokerSite } from './brokerSite';

let site: BrokerSite | undefined;

afterEach(async () => {
  await site?.stop();
  site = undefined;
});

const APPLICATION = '0b6ffc1e-3a3f-4d1d-8f6e-5d2f2a1f7a11';
const VALVE = '0200000000000101';
const ENCODED = {
  mode: 'encoded',
  directPayload: '',
  customEncoder: 'function encodeDownlink(input) { return { bytes: [1, input.data.position] }; }',
  fPort: 10,
  confirmed: true,
};

async function connection(at: BrokerSite, configuration: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const answer = await at.api.call('ConnectionService/CreateConnection', {
    connectorId: 'chirpstack',
    name: 'LoRaWAN',
    configuration: { url: at.broker.url, applicationId: APPLICATION, ...configuration },
  });
  await at.waitForStatus(answer['id'] as string, 'connected');
  return answer['id'] as string;
}

describe.each(['json', 'protobuf'] as const)('a simulated ChirpStack on a real broker, %s', (encoding) => {
  it('takes a confirmed downlink to a class A device and shows its effect across a broker restart', async () => {
    site = await BrokerSite.start();
    const connectionId = await connection(site, { encoding });
    const { deviceId, sensorId, commandId } = await site.createValve(connectionId, {
      clientDeviceId: VALVE,
      sourcePath: 'object.position',
      command: ENCODED,
    });
    const chirpStack = new ChirpStackServer({ url: site.broker.url, applicationId: APPLICATION, encoding });
    chirpStack.addDevice(VALVE);
    await chirpStack.start();
    site.onStop(async () => await chirpStack.stop());
    await chirpStack.uplink(VALVE, { object: { position: 0 } });
    const executionId = await site.execute({ deviceId, sensorId, commandId }, 40);
    await chirpStack.until(() => chirpStack.commands.length === 1);
    await chirpStack.stop();
    await site.broker.stop();
    await site.broker.restart();
    await chirpStack.start();
    await site.waitForStatus(connectionId, 'connected');
    await chirpStack.uplink(VALVE, { object: { position: 0 } });
    await chirpStack.txAck(VALVE);
    await site.waitForState(executionId, 'delivered');
    await chirpStack.uplink(VALVE, { object: { position: 40 }, acknowledges: true });
    const report = await site.waitForState(executionId, 'converged');
    expect(report.events).toEqual(expect.arrayContaining(['transport_ok', 'ack', 'sensors_matched']));
    expect(chirpStack.transmitted).toEqual([executionId]);
  });
});

it.each([
  ['class A', 'valve-1', VALVE],
  ['class C', 'relay-1', '0200000000000201'],
])('the simulated ChirpStack delivers a command to its device: %s', async (_, name, clientDeviceId) => {
  site = await BrokerSite.start();
  const connectionId = await connection(site);
  const stop = new AbortController();
  const running = runNetworkServer(
    {
      broker: site.getTarget(),
      applicationId: APPLICATION,
      devices: createLorawanDevices([name]),
      uplinkIntervalMs: 500,
      answerDelayMs: 0,
      answer: 'accept',
      joinEveryMs: undefined,
    },
    stop.signal,
    () => {},
  );
  site.onStop(async () => {
    stop.abort();
    await running;
  });
  const isRelay = name === 'relay-1';
  const command = isRelay
    ? { ...ENCODED, customEncoder: 'function encodeDownlink() { return { bytes: [0, 1] }; }', expectedSensorStates: [] }
    : ENCODED;
  const valve = await site.createValve(connectionId, {
    clientDeviceId,
    sourcePath: isRelay ? 'object.power' : 'object.position',
    command,
  });
  await site.waitForKey(valve, connectionId, clientDeviceId, isRelay ? 'object.power' : 'object.position', 0);
  const report = await site.waitForState(await site.execute(valve, 40), 'converged', 'accepted_no_l4');
  expect(report.events).toEqual(expect.arrayContaining(['transport_ok', 'ack']));
});
