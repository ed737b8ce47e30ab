import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { CommandResultCode, GatewayServiceClient } from '../../src/gen/gateway/v1/gateway_service';
import { ConnectionRepository, ConnectionSecrets, SecretCipher, SecretKey } from '../../src/connections';
import { silentLogger } from '../../src/kernel/logger';
import { unpackBackup } from '../../src/backup';
import { GatewayClient } from '../connections/gatewayClient';
import { PopulatedSite } from '../backup/populatedSite';
import { plantroom } from '../support/commandLine';
import { HttpClient, type JsonObject } from '../support/http';
import { as } from '../support/testApp';
import { waitUntil } from '../support/waitUntil';
import {
  drillEnv,
  type DrillServer,
  type FirstKey,
  reading,
  readTables,
  type Row,
  startDrillServer,
  type Tables,
} from './drillServer';

const PASSWORD = 'correct horse battery staple';
const PASSPHRASE = 'a passphrase of the site';
const { COMMAND_RESULT_CODE_ACCEPTED: ACCEPTED } = CommandResultCode;
const PLAIN = {
  mode: 'direct',
  verificationStrategy: 'no_verification',
  directPayload: '{"on": true}',
  paramsSchema: {},
};
const TRAIL = ['audit_events', 'audit_chains', 'audit_pending'];
/** The columns of an execution that transition T37 changes. */
const CHANGED_BY_T37 = [
  'state',
  'final',
  'detail',
  'detail_message',
  'finished_at',
  'updated_at',
  'version',
  'event_count',
  'holds_slot',
  'not_before',
  't_delivery',
  't_ack',
  't_conv',
  't_query',
  'next_deadline',
  'dedupe_key',
];

/** Reads every file below a folder, by path. */
function filesIn(folder: string): Map<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    files
      .map((entry) => join(entry.parentPath, entry.name))
      .map((file) => [relative(folder, file), readFileSync(file, 'base64')]),
  );
}

/** Creates a device with one sensor, and a command that expects it to show 21 when it verifies. */
async function device(
  site: PopulatedSite,
  connectionId: string,
  clientDeviceId: string,
  command: JsonObject,
): Promise<{ readonly deviceId: string; readonly commandId: string }> {
  const { id } = await site.callMethod('POST', '/api/v2/devices', {
    name: clientDeviceId,
    physicalDevice: { clientDeviceId, connectionId, configuration: {} },
  });
  const keyNameId = (
    await site.callMethod('POST', '/api/v2/devices/sensor-templates/normalized-keys', {
      name: `Level of ${clientDeviceId}`,
    })
  )['id'];
  const template = (
    await site.callMethod('POST', '/api/v2/devices/sensor-templates', {
      keyNameId,
      sensorType: 'level',
      valueType: 'number',
    })
  )['id'];
  const { sensors } = await site.callMethod('POST', `/api/v2/devices/${String(id)}/sensors`, {
    sensorTemplateIds: [template],
  });
  const [sensor] = sensors as { id: string }[];
  await site.callMethod('PUT', `/api/v2/devices/${String(id)}/sensor-mappings`, {
    mappings: [{ sensorId: sensor?.id, sourcePath: 'level' }],
  });
  const expected =
    command['verificationStrategy'] === 'no_verification'
      ? {}
      : { expectedSensorStates: [{ sensorId: sensor?.id, valueTemplate: '21' }], convergenceTimeout: 3600 };
  const { id: commandId } = await site.callMethod('POST', `/api/v2/devices/${String(id)}/commands`, {
    command: { name: 'Set', ...PLAIN, ...command, ...expected },
  });
  return { deviceId: String(id), commandId: String(commandId) };
}

async function executed(
  site: PopulatedSite,
  { deviceId, commandId }: { readonly deviceId: string; readonly commandId: string },
): Promise<string> {
  return String(
    (await site.callMethod('POST', `/api/v2/devices/${deviceId}/actuator-executions`, { commandId }))['executionId'],
  );
}

async function untilState(http: HttpClient, executionId: string, state: string): Promise<void> {
  await waitUntil(async () => (await http.get(`/api/v2/actuator-executions/${executionId}`)).json['state'] === state);
}

describe('the drill: a server is killed and restored from its backup', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-drill-'));
  const [dataDir, newDir, backupDir, atBackup] = ['data', 'restored', 'backups', 'unpacked'].map((name) =>
    join(folder, name),
  ) as [string, string, string, string];
  const servers: DrillServer[] = [];
  let first: FirstKey;
  let connectionId: string;
  let mqttId: string;
  let createdAfter: string;
  let valve: { readonly deviceId: string; readonly commandId: string };
  let before: Tables;
  let moment: Tables;
  let after: Tables;
  let report: JsonObject;
  const open = new Map<string, string>();

  /** Creates a site with executions in every state, a connection with a secret, images, readings and an audit trail. */
  async function createSite(server: DrillServer): Promise<PopulatedSite> {
    const site = await PopulatedSite.create(server, '');
    const connections = (await site.http.get('/api/v2/connections')).json['connections'] as { id: string }[];
    connectionId = connections[0]?.id ?? '';
    mqttId = String(
      (
        await site.callMethod('POST', '/api/v2/connections', {
          connectorId: 'mqtt',
          name: 'Broker',
          configuration: {
            url: 'mqtt://127.0.0.1:1',
            username: 'plantroom',
            password: PASSWORD,
            uplinkTopic: 'plant/{clientDeviceId}/up',
            downlinkTopic: 'plant/{clientDeviceId}/command',
          },
        })
      )['id'],
    );
    const verifying = { verificationStrategy: 'wait_next_uplink' };
    valve = await device(site, connectionId, 'valve', verifying);
    const [delivered, ended] = [
      await device(site, connectionId, 'delivered', PLAIN),
      await device(site, connectionId, 'ended', PLAIN),
    ];
    for (const [target, state] of [
      [valve, 'accepted'],
      [delivered, 'delivered'],
      [ended, 'accepted_no_l4'],
    ] as const) {
      const id = await executed(site, target);
      await site.gateway.next('command');
      site.gateway.received(id);
      await untilState(site.http, id, 'delivered');
      if (state !== 'delivered') site.gateway.result(id, ACCEPTED);
      if (state !== 'delivered') await site.gateway.next('commandResultAck');
      await untilState(site.http, id, state);
      if (state !== 'accepted_no_l4') open.set(id, state);
    }
    const { id: another } = await site.callMethod('POST', `/api/v2/devices/${delivered.deviceId}/commands`, {
      command: { name: 'Another', ...PLAIN },
    });
    // Queued after the execution that holds the slot.
    open.set(await executed(site, { ...delivered, commandId: String(another) }), 'enqueued');
    return site;
  }

  beforeAll(async () => {
    mkdirSync(backupDir);
    const server = await startDrillServer(dataDir);
    servers.push(server);
    ({ first } = server);
    const site = await createSite(server);
    before = await reading(dataDir, readTables);
    const backupResult = await plantroom(['backup', '--output', backupDir, '--json'], drillEnv(dataDir));
    if (backupResult.code !== 0) throw new Error(backupResult.stderr);
    const { file } = JSON.parse(backupResult.stdout) as { file: string };
    // Lost by the restore, like everything from here on.
    createdAfter = (await device(site, connectionId, 'after', PLAIN)).deviceId;
    await server.process.stop('SIGKILL');
    await site.stop();
    mkdirSync(atBackup);
    await unpackBackup(file, atBackup);
    moment = await reading(atBackup, readTables);
    const restored = await plantroom(['restore', file, '--json'], drillEnv(newDir));
    if (restored.code !== 0) throw new Error(restored.stderr);
    report = JSON.parse(restored.stdout) as JsonObject;
    after = await reading(newDir, readTables);
  });

  afterAll(async () => {
    for (const { process } of servers)
      if (process.child.exitCode === null && process.child.signalCode === null) await process.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  it('the backup contains every row of every table, except the audit events of the backup itself', () => {
    for (const table of before.names) {
      if (!TRAIL.includes(table)) expect([table, moment.texts(table)]).toEqual([table, before.texts(table)]);
    }
    expect(before.beyond(moment, 'audit_events')).toEqual([]);
    expect(before.names.filter((table) => before.rows(table).length > 0).length).toBeGreaterThan(20);
  });

  it('the restore brings back every row of every table, except those that T37 and the trail change', () => {
    expect(after.names).toEqual(moment.names);
    const touched = ['executions', 'execution_events', 'organization_counters', ...TRAIL];
    for (const table of moment.names) {
      if (!touched.includes(table)) expect([table, after.texts(table)]).toEqual([table, moment.texts(table)]);
    }
    // No earlier row was lost.
    for (const table of ['execution_events', 'audit_events']) expect(moment.beyond(after, table)).toEqual([]);
    const counted = [
      ...moment.beyond(after, 'organization_counters'),
      ...after.beyond(moment, 'organization_counters'),
    ];
    expect(new Set(counted.map(({ name }) => name))).toEqual(new Set(['execution_events']));
  });

  it('only open executions are changed, in the columns of T37', () => {
    const now = new Map(after.rows('executions').map((row) => [row['id'], row]));
    expect(now.size).toBe(moment.rows('executions').length);
    for (const row of moment.rows('executions')) {
      const found = now.get(row['id']) as Row;
      const differ = Object.keys(row).filter((column) => row[column] !== found[column]);
      if (row['final'] === 1) expect(differ).toEqual([]);
      else {
        expect(differ.filter((column) => !CHANGED_BY_T37.includes(column))).toEqual([]);
        expect(found).toMatchObject({
          state: row['state'] === 'accepted' ? 'accepted_no_l4' : 'unconfirmed',
          detail: 'restored',
          final: 1,
          holds_slot: 0,
          next_deadline: null,
        });
      }
    }
    expect(new Set(after.beyond(moment, 'execution_events').map(({ event }) => event))).toEqual(new Set(['restored']));
  });

  it('the restore reports which executions it ended, which keys work again, and the number of rows', () => {
    const states = [...open.values(), 'in_transit', 'in_transit'];
    const counted = Object.fromEntries(
      [...new Set(states)].map((state) => [state, states.filter((one) => one === state).length]),
    );
    expect(report['executionsEnded']).toEqual(counted);
    expect(report['keys']).toEqual([expect.objectContaining({ prefix: first.apiKey.slice(0, 10), name: 'First key' })]);
    expect(report['rows']).toEqual(Object.fromEntries(after.names.map((table) => [table, after.rows(table).length])));
    expect(report['keysRevoked']).toBe(false);
  });

  it('images, certificates and the secrets key are identical, byte for byte', async () => {
    for (const name of ['media', 'tls']) {
      const [old, now] = [filesIn(join(dataDir, name)), filesIn(join(newDir, name))];
      expect(now.size).toBeGreaterThan(0);
      for (const [path, content] of now) expect([path, content]).toEqual([path, old.get(path)]);
    }
    expect([...filesIn(join(newDir, 'media')).keys()].some((path) => path.includes(first.organizationId))).toBe(true);
    const key = new SecretKey({ key: '', keyFile: '', dataDir: newDir, log: silentLogger });
    const opened = await reading(newDir, async ({ db }) =>
      new ConnectionSecrets(new SecretCipher(key)).openConnection(
        await new ConnectionRepository(db).get(first.organizationId, mqttId),
      ),
    );
    expect(opened.settings['password']).toBe(PASSWORD);
  });

  it('the trail of every organization is intact and names the restore', async () => {
    expect(await plantroom(['audit', 'verify'], drillEnv(newDir))).toMatchObject({ code: 0 });
    const restores = after.rows('audit_events').filter(({ method }) => method === 'restore');
    expect(restores.map(({ chain }) => chain)).toEqual([first.organizationId]);
  });

  it('the restored server serves the same clients, sends nothing from before, and carries out a new command', async () => {
    const server = await startDrillServer(newDir, first);
    servers.push(server);
    // A client that trusts the CA of the old server and uses its key.
    const ca = join(dataDir, 'tls', 'ca.pem');
    const http = new HttpClient(String(server.app.addresses.http), ca, as(first.apiKey, first.organizationId));
    const gateways = new GatewayServiceClient(
      server.app.addresses.grpc.replace('127.0.0.1', 'localhost'),
      credentials.createSsl(readFileSync(ca)),
    );
    const gateway = new GatewayClient(gateways, first.apiKey, first.organizationId);
    try {
      expect((await http.get(`/api/v2/devices/${createdAfter}`)).status).toBe(404);
      await gateway.attach({ connectionId });
      const answer = await http.send('POST', `/api/v2/devices/${valve.deviceId}/actuator-executions`, {
        body: { commandId: valve.commandId },
      });
      expect(answer.json).toMatchObject({ accepted: true });
      const executionId = String(answer.json['executionId']);
      // The first command that arrives must be the new one.
      expect(await gateway.next('command')).toMatchObject({ executionId });
      gateway.received(executionId);
      gateway.result(executionId, ACCEPTED);
      await gateway.next('commandResultAck');
      gateway.uplink('after-restore', { clientDeviceId: 'valve', payload: { $case: 'json', value: { level: 21 } } });
      await untilState(http, executionId, 'converged');
    } finally {
      gateway.cancel();
      gateways.close();
      http.close();
    }
  });

  it('an encrypted backup is restored with its passphrase; it revokes keys on request, and a new one is created', async () => {
    const [secret, again] = [join(folder, 'passphrase'), join(folder, 'again')];
    writeFileSync(secret, `${PASSPHRASE}\n`);
    const file = join(folder, 'secret.tar.zst.age');
    expect(await plantroom(['backup', '--output', file, '--passphrase-file', secret], drillEnv(dataDir))).toMatchObject(
      { code: 0 },
    ); // of the data folder that the killed server left
    const env = drillEnv(again);
    const restored = await plantroom(['restore', file, '--passphrase-file', secret, '--revoke-keys'], env);
    expect(restored).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('These API keys would be valid again; they are revoked'),
    });
    const [, command = ''] = /plantroom (keys create .*)$/m.exec(restored.stdout) ?? [];
    expect(await plantroom([...command.split(' '), '--json'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/"key": ?"plr_/),
    });
  });
});
