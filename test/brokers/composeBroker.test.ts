import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectAsync, type MqttClient } from 'mqtt';
import { parse } from 'yaml';
import { Mosquitto } from '../support/mosquitto';

const FOLDER = join(__dirname, '..', '..', 'deploy', 'compose', 'chirpstack', 'mosquitto');
const PASSWORDS = { MQTT_OF_PLANTROOM: 'one', MQTT_OF_CHIRPSTACK: 'two', MQTT_OF_BRIDGE: 'three' };
// The test sets its own port, session folder and log destination.
const REPLACED_DIRECTIVES = /^(listener|persistence|log_dest)/;

describe('the broker of deploy/compose/chirpstack', () => {
  let folder: string;
  let broker: Mosquitto;
  const clients: MqttClient[] = [];
  const here = (name: string): string =>
    readFileSync(join(FOLDER, name), 'utf8').replaceAll('/mosquitto/', `${folder}/`);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-compose-broker-'));
    for (const each of ['data', 'config', 'bin']) mkdirSync(join(folder, each));
    writeFileSync(join(folder, 'config', 'acl'), here('acl'));
    writeFileSync(join(folder, 'bin', 'mosquitto'), '#!/bin/sh\n'); // The test starts the real broker on its own port.
    chmodSync(join(folder, 'bin', 'mosquitto'), 0o755);
    const started = spawnSync('sh', ['-c', here('start.sh')], {
      env: { ...PASSWORDS, PATH: `${join(folder, 'bin')}:${process.env['PATH']}` },
      encoding: 'utf8',
    });
    if (started.status !== 0) throw new Error(started.stderr);
    // The broker of the test runs as another user.
    for (const each of [folder, join(folder, 'data'), join(folder, 'data', 'passwords')]) chmodSync(each, 0o755);
    broker = await Mosquitto.start({
      lines: here('mosquitto.conf')
        .split('\n')
        .filter((line) => !REPLACED_DIRECTIVES.test(line)),
    });
  });
  afterAll(async () => {
    for (const client of clients) await client.endAsync(true);
    await broker.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  async function connectAs(username: string, password: string): Promise<MqttClient> {
    const client = await connectAsync(broker.url, { username, password, protocolVersion: 5, reconnectPeriod: 0 });
    clients.push(client);
    return client;
  }

  it('runs its health check as its own user, on a topic that always has a message', async () => {
    const compose = parse(readFileSync(join(FOLDER, '..', 'compose.yaml'), 'utf8'), { merge: true }) as {
      services: { mosquitto: { healthcheck: { test: readonly [string, string] } } };
    };
    const [, command] = compose.services.mosquitto.healthcheck.test;
    const printedArguments = spawnSync(
      'sh',
      ['-c', `mosquitto_sub() { printf '%s\\n' "$@"; }; ${command.replaceAll('$$', '$')}`],
      { env: PASSWORDS, encoding: 'utf8' },
    ).stdout.split('\n');
    expect(printedArguments).toEqual(expect.arrayContaining(['plantroom', 'one', '$SYS/broker/uptime']));
    const client = await connectAs('plantroom', 'one');
    const { promise: receivedTopic, resolve } = Promise.withResolvers<string>();
    client.once('message', resolve);
    await client.subscribeAsync('$SYS/broker/uptime');
    expect(await receivedTopic).toBe('$SYS/broker/uptime');
  });

  it('accepts only clients with the password', async () => {
    await expect(connectAs('plantroom', 'wrong')).rejects.toMatchObject({ code: 135 });
    await expect(connectAsync(broker.url, { protocolVersion: 5, reconnectPeriod: 0 })).rejects.toMatchObject({
      code: 135,
    });
  });

  it('passes events to Plantroom and commands to ChirpStack, and denies Plantroom publishing events', async () => {
    const [plantroom, chirpStack, bridge] = [
      await connectAs('plantroom', 'one'),
      await connectAs('chirpstack', 'two'),
      await connectAs('bridge', 'three'),
    ];
    const received: string[] = [];
    const { promise: all, resolve } = Promise.withResolvers<void>();
    for (const [name, client] of Object.entries({ plantroom, chirpStack, bridge })) {
      client.on('message', (topic) => {
        received.push(`${name} ${topic}`);
        if (received.length === 4) resolve();
      });
      await client.subscribeAsync('#', { qos: 1 });
    }
    const refused = { code: 135 };
    await expect(plantroom.publishAsync('application/a/device/d/event/up', '{}', { qos: 1 })).rejects.toMatchObject(
      refused,
    );
    await expect(bridge.publishAsync('application/a/device/d/command/down', '{}', { qos: 1 })).rejects.toMatchObject(
      refused,
    );
    await chirpStack.publishAsync('application/a/device/d/event/up', '{}', { qos: 1 });
    await plantroom.publishAsync('application/a/device/d/command/down', '{}', { qos: 1 });
    await bridge.publishAsync('eu868/gateway/g/event/up', '{}', { qos: 1 });
    await chirpStack.publishAsync('eu868/gateway/g/command/down', '{}', { qos: 1 });
    await all;
    expect(received.toSorted()).toEqual([
      'bridge eu868/gateway/g/command/down',
      'chirpStack application/a/device/d/command/down',
      'chirpStack eu868/gateway/g/event/up',
      'plantroom application/a/device/d/event/up',
    ]);
  });
});
