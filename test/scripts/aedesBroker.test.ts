import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import type { Aedes, PublishPacket } from 'aedes';
import { type IPublishPacket, type Packet, parser, writeToStream } from 'mqtt-packet';
import { createAedesBroker } from '../../scripts/crash/aedesBroker';
import { waitUntil } from '../support/waitUntil';

const TOPIC = 'site/meter-1/up';

let aedes: Aedes;
let server: Server;
let subscriber: Socket;
/** The packets that the subscriber received on its current connection. */
let received: Packet[];

beforeEach(async () => {
  aedes = await createAedesBroker();
  server = createServer((socket) => aedes.handle(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(async () => {
  subscriber.destroy();
  await new Promise<void>((resolve) => aedes.close(resolve));
  await new Promise((resolve) => server.close(resolve));
});

/** Connects a subscriber that acknowledges nothing and has a session at the broker. */
async function connectSubscriber(): Promise<void> {
  const packets: Packet[] = (received = []);
  const parsed = parser();
  parsed.on('packet', (packet) => packets.push(packet));
  subscriber = connect((server.address() as AddressInfo).port, '127.0.0.1');
  subscriber.on('data', (data) => parsed.parse(data));
  writeToStream({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clientId: 'c', clean: false }, subscriber);
  writeToStream({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: TOPIC, qos: 1 }] }, subscriber);
  await waitUntil(() => received.some(({ cmd }) => cmd === 'suback'));
}

async function disconnectSubscriber(): Promise<void> {
  const disconnected = once(aedes, 'clientDisconnect');
  subscriber.destroy();
  await disconnected;
}

/** Publishes a message with QoS 1. */
async function publish(payload: string): Promise<void> {
  const packet: PublishPacket = { cmd: 'publish', topic: TOPIC, payload, qos: 1, dup: false, retain: false };
  await new Promise<void>((resolve, reject) => aedes.publish(packet, (error) => (error ? reject(error) : resolve())));
}

function getMessages(): readonly IPublishPacket[] {
  return received.filter((packet) => packet.cmd === 'publish');
}

/** Resolves when the subscriber has received this number of messages. */
async function receive(count: number): Promise<readonly Pick<IPublishPacket, 'messageId' | 'dup'>[]> {
  await waitUntil(() => getMessages().length >= count);
  return getMessages().map(({ payload, messageId, dup }) => ({ payload: payload.toString(), messageId, dup }));
}

describe('the aedes broker of the crash test', () => {
  it('marks a message that it sends again, and gives a new one an unused packet identifier', async () => {
    await connectSubscriber();
    await publish('sent');
    const [sent] = await receive(1);
    await disconnectSubscriber();
    await publish('stored');
    await connectSubscriber();
    await receive(2);
    await publish('live');
    const first = sent?.messageId ?? 0;
    expect(await receive(3)).toEqual([
      { payload: 'sent', messageId: first, dup: true },
      { payload: 'stored', messageId: (first % 65_535) + 1, dup: false },
      { payload: 'live', messageId: ((first + 1) % 65_535) + 1, dup: false },
    ]);
  });
});
