import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { Aedes, type AedesPublishPacket, type Client } from 'aedes';
import { lorawanDevices } from '../../src/cli/simulate/chirpStack/lorawanDevices';
import { runNetworkServer, type NetworkServerOptions } from '../../src/cli/simulate/chirpStack/networkServer';
import { runMqttDevices, type MqttDevicesOptions } from '../../src/cli/simulate/mqtt/mqttDevices';
import type { PlayedEvent } from '../../src/cli/simulate/playing';
import { simulatedDevices } from '../../src/cli/simulate/simulatedDevices';

const APPLICATION = '0b6ffc1e-3a3f-4d1d-8f6e-5d2f2a1f7a11';
const VALVE = '0200000000000101';
const RELAY = '0200000000000201';

type Json = Readonly<Record<string, unknown>>;
/** What was published: its topic and its JSON. */
type Published = readonly [topic: string, body: Json];

let broker: Aedes;
let server: Server;
let stop: AbortController;
let running: Promise<void>;
let published: Published[];
let events: PlayedEvent[];
let wakers: (() => void)[];

const wake = (): void => {
  for (const waker of wakers.splice(0)) waker();
};
const note = (event: PlayedEvent): void => {
  events.push(event);
  wake();
};
const url = (): string => `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}`;
const target = (): MqttDevicesOptions['broker'] => ({ url: url(), username: undefined, password: undefined, ca: undefined, certificate: undefined, privateKey: undefined });
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

/** Resolves with what `find` finds, as soon as it finds it. */
async function until<T>(find: () => T | undefined): Promise<T> {
  for (;;) {
    const found = find();
    if (found !== undefined) return found;
    await new Promise<void>((resolve) => wakers.push(resolve));
  }
}
const sent = async (topic: string, from = 0): Promise<Json> => await until(() => published.slice(from).find(([at]) => at === topic)?.[1]);
const happened = async (name: string): Promise<Json> => await until(() => events.find(({ event }) => event === name)?.fields);
const send = async (topic: string, payload: Json | Buffer): Promise<void> =>
  await new Promise((resolve, reject) => broker.publish({ cmd: 'publish', topic, payload: Buffer.isBuffer(payload) ? payload : JSON.stringify(payload), qos: 1, dup: false, retain: false }, (error) => (error ? reject(error) : resolve())));

const event = (devEui: string, kind: string): string => `application/${APPLICATION}/device/${devEui}/event/${kind}`;
const kinds = (devEui: string): string[] => published.filter(([topic]) => topic.includes(devEui)).map(([topic]) => topic.split('/').at(-1) ?? '');
const command = async (devEui: string, body: Json): Promise<void> => await send(`application/${APPLICATION}/device/${devEui}/command/down`, { devEui, ...body });
const heardAgain = async (devEui: string, count: number): Promise<Json> => await until(() => published.filter(([topic]) => topic === event(devEui, 'up'))[count - 1]?.[1]);

async function playDevices(options: Partial<MqttDevicesOptions> = {}): Promise<void> {
  const usual = { broker: target(), devices: simulatedDevices(['valve-1', 'relay-1']), uplinkTopic: 'p/{clientDeviceId}/up', commandTopic: 'p/{clientDeviceId}/down', answerTopic: 'p/{clientDeviceId}/answer', uplinkIntervalMs: 0, answerDelayMs: 0, answer: 'accept', times } as const;
  running = runMqttDevices({ ...usual, ...options }, stop.signal, note);
  await happened('broker.connected');
}

describe('the simulated MQTT devices', () => {
  it('takes a command, answers it by its id on the answer topic, and sends what the device shows then', async () => {
    await playDevices();
    expect(await happened('broker.connected')).toMatchObject({ mqtt: '3.1.1' }); // what this broker speaks
    await send('p/valve-1/down', { id: 'e1', position: 40 });
    expect(await sent('p/valve-1/answer')).toEqual({ id: 'e1', status: 'ok', message: 'position is 40' });
    const shown = await sent('p/valve-1/up');
    expect(shown).toMatchObject({ position: 40 });
    expect(shown).not.toHaveProperty('id');
  });

  it('does not answer a command without an id, and takes bytes', async () => {
    await playDevices();
    await send('p/relay-1/down', Buffer.from([1, 1]));
    expect(await sent('p/relay-1/up')).toMatchObject({ relays: [false, true] });
    expect(published.map(([topic]) => topic)).toEqual(['p/relay-1/up']);
  });

  it.each([
    ['what the device does not take', {}, { id: 'e', position: 400 }, 'bad_position'],
    ['anything, when it is told to', { answer: 'reject' }, { id: 'e', position: 4 }, 'rejected_on_request'],
  ] as const)('answers no: %s', async (_, options, command, status) => {
    await playDevices(options);
    await send('p/valve-1/down', command);
    expect(await sent('p/valve-1/answer')).toMatchObject({ id: 'e', status });
  });

  it('keeps silent when it is told to', async () => {
    await playDevices({ answer: 'no_answer' });
    await send('p/valve-1/down', { id: 'e', position: 4 });
    expect(await happened('command.ignored')).toMatchObject({ device: 'valve-1' });
    expect(published).toEqual([]);
  });

  it('sends by itself, and comes back when the broker cuts it off', async () => {
    await playDevices({ uplinkIntervalMs: 60_000 });
    expect(await sent('p/valve-1/up')).toMatchObject({ position: 0, temperature: expect.any(Number) });
    await sent('p/relay-1/up');
    const before = published.length;
    for (const client of Object.values((broker as unknown as { clients: Record<string, Client> }).clients)) client.close();
    expect(await sent('p/relay-1/up', before)).toMatchObject({ relays: [false, false] });
    expect(events.filter(({ event }) => event === 'broker.connected')).toHaveLength(2);
  });

  it('ends when the broker will never let it in', async () => {
    broker.authenticate = (_client, _user, _password, done) => done(Object.assign(new Error('no'), { returnCode: 5 }), false);
    running = runMqttDevices({ broker: target(), devices: [], uplinkTopic: 'u', commandTopic: 'd', answerTopic: 'a', uplinkIntervalMs: 0, answerDelayMs: 0, answer: 'accept', times }, stop.signal, note);
    await expect(running).rejects.toMatchObject({ reason: 'simulator_refused', message: expect.stringContaining('--password') });
  });
});

async function playNetworkServer(options: Partial<NetworkServerOptions> = {}): Promise<void> {
  const usual = { broker: target(), applicationId: APPLICATION, devices: lorawanDevices(['valve-1', 'relay-1']), uplinkIntervalMs: 0, answerDelayMs: 0, answer: 'accept', joinEveryMs: undefined, times } as const;
  running = runNetworkServer({ ...usual, ...options }, stop.signal, note);
  await sent(event(RELAY, 'up'));
}

describe('the simulated ChirpStack', () => {
  it('joins its devices and shows what they measure in the words of ChirpStack', async () => {
    await playNetworkServer();
    expect(await sent(event(VALVE, 'join'))).toMatchObject({ deviceInfo: { applicationId: APPLICATION, devEui: VALVE, deviceName: 'valve-1' }, devAddr: expect.stringMatching(/^[0-9a-f]{8}$/) });
    const up = await sent(event(VALVE, 'up'));
    expect(up).toMatchObject({ deduplicationId: expect.any(String), fPort: 2, object: { position: 0 }, rxInfo: [{ rssi: expect.any(Number), nsTime: expect.stringMatching(/^\d{4}-.*\+00:00$/) }, {}] });
    expect(up).not.toHaveProperty('fCnt'); // 0, the default value, is left out
    expect(up['deviceInfo']).not.toHaveProperty('deviceClassEnabled');
    expect((await sent(event(RELAY, 'up')))['deviceInfo']).toMatchObject({ deviceClassEnabled: 'CLASS_C' });
  });

  it('shows bytes alone where there is no codec', async () => {
    await playNetworkServer({ raw: true });
    await command(VALVE, { id: 'q1', confirmed: false, fPort: 10, data: Buffer.of(1, 40).toString('base64') });
    const first = await sent(event(VALVE, 'up'));
    expect(first).not.toHaveProperty('object');
    expect([first['fPort'], Buffer.from(String(first['data']), 'base64').length]).toEqual([2, 6]);
  });

  it('sends a confirmed downlink to class C at once: txack, then up and ack of the same frame', async () => {
    await playNetworkServer();
    await command(RELAY, { id: 'i1', confirmed: true, fPort: 10, data: Buffer.from([0, 1]).toString('base64') });
    const ack = await sent(event(RELAY, 'ack'));
    expect(ack).toMatchObject({ queueItemId: 'i1', acknowledged: true });
    expect(kinds(RELAY).slice(0, 5)).toEqual(['join', 'up', 'txack', 'up', 'ack']);
    const up = await heardAgain(RELAY, 2);
    expect(up).toMatchObject({ object: { relays: [true, false] }, deduplicationId: ack['deduplicationId'] });
  });

  it('keeps a downlink of class A until the device is heard, and drops what expired by then', async () => {
    await playNetworkServer({ uplinkIntervalMs: 200 });
    await command(VALVE, { id: 'late', fPort: 10, object: { position: 10 }, expiresAt: new Date(0).toISOString() });
    await command(VALVE, { id: 'i2', fPort: 10, object: { position: 55 } });
    await command(VALVE, { id: 'i2', fPort: 10, object: { position: 56 } });
    expect(await sent(event(VALVE, 'txack'))).toMatchObject({ queueItemId: 'i2' });
    expect(await sent(event(VALVE, 'log'))).toMatchObject({ level: 'WARNING', code: 'EXPIRED', context: { queue_item_id: 'late' } });
    expect(await until(() => published.find(([topic, { object }]) => topic === event(VALVE, 'up') && (object as Json)['position'] === 55))).toBeDefined();
    expect(await happened('queue.refused')).toMatchObject({ item: 'i2' });
  });

  it('tells that a confirmed downlink was not acknowledged', async () => {
    await playNetworkServer({ answer: 'no_answer', uplinkIntervalMs: 200 });
    await command(VALVE, { id: 'i3', confirmed: true, fPort: 10, data: 'ASg=' });
    expect(await sent(event(VALVE, 'ack'))).not.toHaveProperty('acknowledged'); // false, the default value
  });

  it('flushes a queue on a join without a word', async () => {
    await playNetworkServer({ joinEveryMs: 300 });
    await command(VALVE, { id: 'i4', fPort: 10, data: 'ASg=' });
    await until(() => events.find((e) => e.event === 'device.joined' && e.fields['flushed'] === 1));
    expect(kinds(VALVE)).not.toContain('txack');
  });

  it('writes what is wrong with a command into its own log only', async () => {
    await playNetworkServer();
    const before = published.length;
    await command(VALVE, { id: 'i5', data: 'ASg=' });
    expect(await happened('queue.refused')).toMatchObject({ message: expect.stringContaining('fPort') });
    expect(published.slice(before)).toEqual([]);
  });

  it('knows devices by number or by DevEUI', () => {
    expect(lorawanDevices(['valve-1', 'relay-2', 'room-255', 'valve-24E124136B502217']).map(({ devEui, deviceClass }) => [devEui, deviceClass])).toEqual([
      [VALVE, 'A'],
      ['0200000000000202', 'C'],
      ['02000000000003ff', 'A'],
      ['24e124136b502217', 'A'],
    ]);
    expect(() => lorawanDevices(['valve-256'])).toThrow(/number from 0 to 255/);
    expect(() => lorawanDevices(['valve-1', 'valve-01'])).toThrow(/twice/);
  });
});
