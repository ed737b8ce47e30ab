import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { COMMANDS, DEVICES, idOf, type Site, startSite, type Target } from '../faults/site';

const MINUTES_20 = 1_200_000;

/** What makes the alerts speak, done to a real server: the numbers that they look at have to show it. */
describe('the numbers of the alerts', () => {
  let root: string;
  let site: Site;
  let ahead = 0;
  let mqttId = '';
  let numbers: ReadonlyMap<string, number>;
  const clock = { now: () => Date.now() + ahead, monotonic: () => performance.now() + ahead };
  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'plantroom-alerts-'));
    writeFileSync(join(root, 'backups'), 'a file where the folder should be, as of a disk that is not mounted');
    site = await startSite(join(root, 'data'), { clock, flags: { 'metrics.listen': '127.0.0.1:0', 'backup.schedule': '30 2 * * *', 'backup.dir': join(root, 'backups') } });
    mqttId = idOf(await site.call('connection.ConnectionService/CreateConnection', { connectorId: 'mqtt', name: 'Nobody there', enabled: true, configuration: { url: 'mqtt://127.0.0.1:1', uplinkTopic: 'site/{clientDeviceId}/up' } }));
    await loseOne(await site.target());
    await askAway();
    ahead += MINUTES_20;
    const text = await (await fetch(`http://${site.app.addresses.metrics}/metrics`)).text();
    numbers = new Map(text.split('\n').filter((line) => /^[a-z]/.test(line)).map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]));
  });
  afterAll(async () => {
    await site.stop();
    rmSync(root, { recursive: true, force: true });
  });

  const execute = async (id: string, commandId: string): Promise<string> => String((await site.call(`${COMMANDS}/ExecuteCommand`, { id, commandId })).json['executionId']);

  /** One provably does not reach its device. */
  async function loseOne({ connectionId, deviceId, commandId }: Target): Promise<void> {
    const gateway = site.gateway();
    await gateway.attach({ connectionId });
    const lost = await execute(deviceId, commandId);
    await gateway.next('command');
    gateway.result(lost, CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE);
    await gateway.next('commandResultAck');
    gateway.cancel();
  }

  /** Of those whose gateway was never there three are taken back, and one waits. */
  async function askAway(): Promise<void> {
    const connectionId = idOf(await site.call('connection.ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Away' }));
    const id = idOf(await site.call(`${DEVICES}/CreateDigitalDevice`, { name: 'Far', physicalDevice: { connectionId, clientDeviceId: 'far' } }));
    const commandId = idOf(await site.call(`${COMMANDS}/CreateCommand`, { id, command: { name: 'Open', mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{}' } }));
    for (let n = 0; n < 3; n += 1) await site.call(`${COMMANDS}/CancelExecution`, { executionId: await execute(id, commandId) });
    await execute(id, commandId);
  }

  it.each([
    ['PlantroomBackupMissing: a schedule', 'plantroom_backup_scheduled', 1],
    ['PlantroomBackupMissing: and no backup that can be seen', 'plantroom_backup_last_success_timestamp_seconds', 0],
    ['PlantroomExecutionsFailing: those that did not reach their device', 'plantroom_executions_ended_total{state="transport_unreachable",withdrawn="no"}', 1],
    ['PlantroomExecutionsFailing: apart from those that were taken back', 'plantroom_executions_ended_total{state="transport_unreachable",withdrawn="yes"}', 3],
    ['PlantroomQueueGrowing: those that wait', 'plantroom_executions_open{state="enqueued"}', 1],
  ])('%s', (_alert, series, value) => {
    expect(numbers.get(series)).toBe(value);
  });

  it('PlantroomConnectionDown: for how long', () => {
    expect(numbers.get(`plantroom_connection_down_seconds{connection="${mqttId}",connector="mqtt"}`)).toBeGreaterThan(900);
  });
});
