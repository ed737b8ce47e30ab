import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectAsync, type MqttClient } from 'mqtt';
import { parse } from 'yaml';
import { Mosquitto } from '../support/mosquitto';

const FOLDER = join(__dirname, '..', '..', 'deploy', 'compose', 'chirpstack', 'mosquitto');
const PASSWORDS = { MQTT_OF_PLANTROOM: 'one', MQTT_OF_CHIRPSTACK: 'two', MQTT_OF_BRIDGE: 'three' };
// The port, the place of the sessions and where the log goes are the test's own.
const OURS = /^(listener|persistence|log_dest)/;

describe('the broker of deploy/compose/chirpstack', () => {
  let folder: string;
  let broker: Mosquitto;
  const clients: MqttClient[] = [];
  const here = (name: string): string => readFileSync(join(FOLDER, name), 'utf8').replaceAll('/mosquitto/', `${folder}/`);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-compose-broker-'));
    for (const each of ['data', 'config', 'bin']) mkdirSync(join(folder, each));
    writeFileSync(join(folder, 'config', 'acl'), here('acl'));
    writeFileSync(join(folder, 'bin', 'mosquitto'), '#!/bin/sh\n'); // the test starts the real one, on a port of its own
    chmodSync(join(folder, 'bin', 'mosquitto'), 0o755);
    const started = spawnSync('sh', ['-c', here('start.sh')], { env: { ...PASSWORDS, PATH: `${join(folder, 'bin')}:${process.env['PATH']}` }, encoding: 'utf8' });
    if (started.status !== 0) throw new Error(started.stderr);
    for (const each of [folder, join(folder, 'data'), join(folder, 'data', 'passwords')]) chmodSync(each, 0o755); // the broker of the test has another user
    broker = await Mosquitto.start({ lines: here('mosquitto.conf').split('\n').filter((line) => !OURS.test(line)) });
  });
  afterAll(async () => {
    for (const client of clients) await client.endAsync(true);
    await broker.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  async function sign(username: string, password: string): Promise<MqttClient> {
    const client = await connectAsync(broker.url, { username, password, protocolVersion: 5, reconnectPeriod: 0 });
    clients.push(client);
    return client;
  }

  it('is asked for its health as its own user, by a topic that it always keeps', async () => {
    const compose = parse(readFileSync(join(FOLDER, '..', 'compose.yaml'), 'utf8'), { merge: true }) as { services: { mosquitto: { healthcheck: { test: readonly [string, string] } } } };
    const [, command] = compose.services.mosquitto.healthcheck.test;
    const asked = spawnSync('sh', ['-c', `mosquitto_sub() { printf '%s\\n' "$@"; }; ${command.replaceAll('$$', '$')}`], { env: PASSWORDS, encoding: 'utf8' }).stdout.split('\n');
    expect(asked).toEqual(expect.arrayContaining(['plantroom', 'one', '$SYS/broker/uptime']));
    const client = await sign('plantroom', 'one');
    const { promise: told, resolve } = Promise.withResolvers<string>();
    client.once('message', resolve);
    await client.subscribeAsync('$SYS/broker/uptime');
    expect(await told).toBe('$SYS/broker/uptime');
  });

  it('lets in who has the password, and nobody else', async () => {
    await expect(sign('plantroom', 'wrong')).rejects.toMatchObject({ code: 135 });
    await expect(connectAsync(broker.url, { protocolVersion: 5, reconnectPeriod: 0 })).rejects.toMatchObject({ code: 135 });
  });

  it('passes events to Plantroom and commands to ChirpStack, and lets Plantroom write no events', async () => {
    const [plantroom, chirpStack, bridge] = [await sign('plantroom', 'one'), await sign('chirpstack', 'two'), await sign('bridge', 'three')];
    const seen: string[] = [];
    const { promise: all, resolve } = Promise.withResolvers<void>();
    for (const [name, client] of Object.entries({ plantroom, chirpStack, bridge })) {
      client.on('message', (topic) => {
        seen.push(`${name} ${topic}`);
        if (seen.length === 4) resolve();
      });
      await client.subscribeAsync('#', { qos: 1 });
    }
    const refused = { code: 135 };
    await expect(plantroom.publishAsync('application/a/device/d/event/up', '{}', { qos: 1 })).rejects.toMatchObject(refused);
    await expect(bridge.publishAsync('application/a/device/d/command/down', '{}', { qos: 1 })).rejects.toMatchObject(refused);
    await chirpStack.publishAsync('application/a/device/d/event/up', '{}', { qos: 1 });
    await plantroom.publishAsync('application/a/device/d/command/down', '{}', { qos: 1 });
    await bridge.publishAsync('eu868/gateway/g/event/up', '{}', { qos: 1 });
    await chirpStack.publishAsync('eu868/gateway/g/command/down', '{}', { qos: 1 });
    await all;
    expect(seen.toSorted()).toEqual(['bridge eu868/gateway/g/command/down', 'chirpStack application/a/device/d/command/down', 'chirpStack eu868/gateway/g/event/up', 'plantroom application/a/device/d/event/up']);
  });
});
