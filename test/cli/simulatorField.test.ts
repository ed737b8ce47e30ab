import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { Aedes, type AedesPublishPacket, type Client } from 'aedes';
import { createLorawanDevices } from '../../src/cli/simulate/chirpStack/lorawanDevices';
import { runNetworkServer, type NetworkServerOptions } from '../../src/cli/simulate/chirpStack/networkServer';
import { runMqttDevices, type MqttDevicesOptions } from '../../src/cli/simulate/mqtt/mqttDevices';
import type { SimulationEvent } from '../../src/cli/simulate/simulation';
import { createSimulatedDevices } from '../../src/cli/simulate/simulatedDevices';

const APPLICATION = '0b6ffc1e-3a3f-4d1d-8f6e-5d2f2a1f7a11';
const VALVE = '0200000000000101';
const RELAY = '0200000000000201';

type Json = Readonly<Record<string, unknown>>;
/** A published message: its topic and its JSON. */
type Published = readonly [topic: string, body: Json];

let broker: Aedes;
let server: Server;
let stop: AbortController;
let running: Promise<void>;
let published: Published[];
let events: SimulationEvent[];
let wakers: (() => void)[];

const wake = (): void => {
  for (const waker of wakers.splice(0)) waker();
};
const note = (event: SimulationEvent): void => {
  events.push(event);
  wake();
};
const url = (): string => `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`;
const target = (): MqttDevicesOptions['broker'] => ({
  url: url(),
  username: undefined,
  password: undefined,
  ca: undefined,
  certificate: undefined,
  privateKey: undefined,
});
const times = { connectMs: 5000, backoffMs: () => 1 };

beforeEach(async () => {
  [published, events, wakers] = [[], [], []];
  broker = await Aedes.createBroker();
  broker.on('publish', (packet: AedesPublishPacket, client: Client | null) => {
    if (client) published.push([packet.topic, JSON.parse(packet.payload.toString()) as Json]);
    wake();
  });
  server = createServer(broker.handle);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stop = new AbortController();
  running = Promise.resolve();
});
afterEach(async () => {
  stop.abort();
  await running.catch(() => {});
  await new Promise<void>((resolve) => broker.close(resolve));
  server.close();
});

/** Resolves with the result of `find` as soon as it is defined. */
async function waitFor<T>(find: () => T | undefined): Promise<T> {
  for (;;) {
    const found = find();
    if (found !== undefined) return found;
    await new Promise<void>((resolve) => wakers.push(resolve));
  }
}
const waitForMessage = async (topic: string, from = 0): Promise<Json> =>
  await waitFor(() => published.slice(from).find(([at]) => at === topic)?.[1]);
const waitForEvent = async (name: string): Promise<Json> =>
  await waitFor(() => events.find(({ event }) => event === name)?.fields);
const send = async (topic: string, payload: Json | Buffer): Promise<void> =>
  await new Promise((resolve, reject) =>
    broker.publish(
      {
        cmd: 'publish',
        topic,
        payload: Buffer.isBuffer(payload) ? payload : JSON.stringify(payload),
        qos: 1,
        dup: false,
        retain: false,
      },
      (error) => (error ? reject(error) : resolve()),
    ),
  );

const event = (devEui: string, kind: string): string => `application/${APPLICATION}/device/${devEui}/event/${kind}`;
const kinds = (devEui: string): string[] =>
  published.filter(([topic]) => topic.includes(devEui)).map(([topic]) => topic.split('/').at(-1) ?? '');
const command = async (devEui: string, body: Json): Promise<void> =>
  await send(`application/${APPLICATION}/device/${devEui}/command/down`, { devEui, ...body });
const waitForUplink = async (devEui: string, count: number): Promise<Json> =>
  await waitFor(() => published.filter(([topic]) => topic === event(devEui, 'up'))[count - 1]?.[1]);

async function startDevices(options: Partial<MqttDevicesOptions> = {}): Promise<void> {
  const defaults = {
    broker: target(),
    devices: createSimulatedDevices(['valve-1', 'relay-1']),
    uplinkTopic: 'p/{clientDeviceId}/up',
    commandTopic: 'p/{clientDeviceId}/down',
    answerTopic: 'p/{clientDeviceId}/answer',
    uplinkIntervalMs: 0,
    answerDelayMs: 0,
    answer: 'accept',
    times,
  } as const;
  running = runMqttDevices({ ...defaults, ...options }, stop.signal, note);
  await waitForEvent('broker.connected');
}

describe('the simulated MQTT devices', () => {
  it('receives a command, answers it by its ID on the response topic, and sends the new device state', async () => {
    await startDevices();
    // The version that this broker supports.
    expect(await waitForEvent('broker.connected')).toMatchObject({ mqtt: '3.1.1' });
    await send('p/valve-1/down', { id: 'e1', position: 40 });
    expect(await waitForMessage('p/valve-1/answer')).toEqual({ id: 'e1', status: 'ok', message: 'position is 40' });
    const shown = await waitForMessage('p/valve-1/up');
    expect(shown).toMatchObject({ position: 40 });
    expect(shown).not.toHaveProperty('id');
  });

  it('does not answer a command without an ID, and accepts bytes', async () => {
    await startDevices();
    await send('p/relay-1/down', Buffer.from([1, 1]));
    expect(await waitForMessage('p/relay-1/up')).toMatchObject({ relays: [false, true] });
    expect(published.map(([topic]) => topic)).toEqual(['p/relay-1/up']);
  });

  it.each([
    ['an invalid command', {}, { id: 'e', position: 400 }, 'bad_position'],
    ['any command, if configured so', { answer: 'reject' }, { id: 'e', position: 4 }, 'simulated_rejection'],
  ] as const)('answers with a rejection: %s', async (_, options, command, status) => {
    await startDevices(options);
    await send('p/valve-1/down', command);
    expect(await waitForMessage('p/valve-1/answer')).toMatchObject({ id: 'e', status });
  });

  it('does not answer if configured so', async () => {
    await startDevices({ answer: 'no_answer' });
    await send('p/valve-1/down', { id: 'e', position: 4 });
    expect(await waitForEvent('command.ignored')).toMatchObject({ device: 'valve-1' });
    expect(published).toEqual([]);
  });

  it('sends measurements periodically, and reconnects when the broker disconnects it', async () => {
    await startDevices({ uplinkIntervalMs: 60_000 });
    expect(await waitForMessage('p/valve-1/up')).toMatchObject({ position: 0, temperature: expect.any(Number) });
    await waitForMessage('p/relay-1/up');
    const before = published.length;
    for (const client of Object.values((broker as unknown as { clients: Record<string, Client> }).clients))
      client.close();
    expect(await waitForMessage('p/relay-1/up', before)).toMatchObject({ relays: [false, false] });
    expect(events.filter(({ event }) => event === 'broker.connected')).toHaveLength(2);
  });

  it('exits if the broker rejects it permanently', async () => {
    broker.authenticate = (_client, _user, _password, done) =>
      done(Object.assign(new Error('no'), { returnCode: 5 }), false);
    running = runMqttDevices(
      {
        broker: target(),
        devices: [],
        uplinkTopic: 'u',
        commandTopic: 'd',
        answerTopic: 'a',
        uplinkIntervalMs: 0,
        answerDelayMs: 0,
        answer: 'accept',
        times,
      },
      stop.signal,
      note,
    );
    await expect(running).rejects.toMatchObject({
      reason: 'connection_refused',
      message: expect.stringContaining('--password'),
    });
  });
});

async function startNetworkServer(options: Partial<NetworkServerOptions> = {}): Promise<void> {
  const defaults = {
    broker: target(),
    applicationId: APPLICATION,
    devices: createLorawanDevices(['valve-1', 'relay-1']),
    uplinkIntervalMs: 0,
    answerDelayMs: 0,
    answer: 'accept',
    joinEveryMs: undefined,
    times,
  } as const;
  running = runNetworkServer({ ...defaults, ...options }, stop.signal, note);
  await waitForMessage(event(RELAY, 'up'));
}

describe('the simulated ChirpStack', () => {
  it('joins its devices and publishes their measurements in the format of ChirpStack', async () => {
    await startNetworkServer();
    expect(await waitForMessage(event(VALVE, 'join'))).toMatchObject({
      deviceInfo: { applicationId: APPLICATION, devEui: VALVE, deviceName: 'valve-1' },
      devAddr: expect.stringMatching(/^[0-9a-f]{8}$/),
    });
    const up = await waitForMessage(event(VALVE, 'up'));
    expect(up).toMatchObject({
      deduplicationId: expect.any(String),
      fPort: 2,
      object: { position: 0 },
      rxInfo: [{ rssi: expect.any(Number), nsTime: expect.stringMatching(/^\d{4}-.*\+00:00$/) }, {}],
    });
    expect(up).not.toHaveProperty('fCnt'); // The default value 0 is omitted.
    expect(up['deviceInfo']).not.toHaveProperty('deviceClassEnabled');
    expect((await waitForMessage(event(RELAY, 'up')))['deviceInfo']).toMatchObject({ deviceClassEnabled: 'CLASS_C' });
  });

  it('publishes only bytes if there is no codec', async () => {
    await startNetworkServer({ binaryPayload: true });
    await command(VALVE, { id: 'q1', confirmed: false, fPort: 10, data: Buffer.of(1, 40).toString('base64') });
    const first = await waitForMessage(event(VALVE, 'up'));
    expect(first).not.toHaveProperty('object');
    expect([first['fPort'], Buffer.from(String(first['data']), 'base64').length]).toEqual([2, 6]);
  });

  it('sends a confirmed downlink to class C immediately: txack, then up and ack of the same frame', async () => {
    await startNetworkServer();
    await command(RELAY, { id: 'i1', confirmed: true, fPort: 10, data: Buffer.from([0, 1]).toString('base64') });
    const ack = await waitForMessage(event(RELAY, 'ack'));
    expect(ack).toMatchObject({ queueItemId: 'i1', acknowledged: true });
    expect(kinds(RELAY).slice(0, 5)).toEqual(['join', 'up', 'txack', 'up', 'ack']);
    const up = await waitForUplink(RELAY, 2);
    expect(up).toMatchObject({ object: { relays: [true, false] }, deduplicationId: ack['deduplicationId'] });
  });

  it('queues a class A downlink until the next uplink, and drops expired downlinks then', async () => {
    await startNetworkServer({ uplinkIntervalMs: 200 });
    await command(VALVE, { id: 'late', fPort: 10, object: { position: 10 }, expiresAt: new Date(0).toISOString() });
    await command(VALVE, { id: 'i2', fPort: 10, object: { position: 55 } });
    await command(VALVE, { id: 'i2', fPort: 10, object: { position: 56 } });
    expect(await waitForMessage(event(VALVE, 'txack'))).toMatchObject({ queueItemId: 'i2' });
    expect(await waitForMessage(event(VALVE, 'log'))).toMatchObject({
      level: 'WARNING',
      code: 'EXPIRED',
      context: { queue_item_id: 'late' },
    });
    expect(
      await waitFor(() =>
        published.find(([topic, { object }]) => topic === event(VALVE, 'up') && (object as Json)['position'] === 55),
      ),
    ).toBeDefined();
    expect(await waitForEvent('queue.refused')).toMatchObject({ item: 'i2' });
  });

  it('reports a confirmed downlink without an acknowledgement', async () => {
    await startNetworkServer({ answer: 'no_answer', uplinkIntervalMs: 200 });
    await command(VALVE, { id: 'i3', confirmed: true, fPort: 10, data: 'ASg=' });
    expect(await waitForMessage(event(VALVE, 'ack'))).not.toHaveProperty('acknowledged'); // The default value false is omitted.
  });

  it('flushes a queue on a join without an event', async () => {
    await startNetworkServer({ joinEveryMs: 300 });
    await command(VALVE, { id: 'i4', fPort: 10, data: 'ASg=' });
    await waitFor(() => events.find((e) => e.event === 'device.joined' && e.fields['flushed'] === 1));
    expect(kinds(VALVE)).not.toContain('txack');
  });

  it('writes errors in a command only to its own log', async () => {
    await startNetworkServer();
    const before = published.length;
    await command(VALVE, { id: 'i5', data: 'ASg=' });
    expect(await waitForEvent('queue.refused')).toMatchObject({ message: expect.stringContaining('fPort') });
    expect(published.slice(before)).toEqual([]);
  });

  it('identifies devices by number or by DevEUI', () => {
    expect(
      createLorawanDevices(['valve-1', 'relay-2', 'room-255', 'valve-24E124136B502217']).map(
        ({ devEui, deviceClass }) => [devEui, deviceClass],
      ),
    ).toEqual([
      [VALVE, 'A'],
      ['0200000000000202', 'C'],
      ['02000000000003ff', 'A'],
      ['24e124136b502217', 'A'],
    ]);
    expect(() => createLorawanDevices(['valve-256'])).toThrow(/number from 0 to 255/);
    expect(() => createLorawanDevices(['valve-1', 'valve-01'])).toThrow(/twice/);
  });
});
