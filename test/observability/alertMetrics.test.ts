import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CommandResultCode } from '../../src/gen/gateway/v1/gateway_service';
import { COMMANDS, DEVICES, getId, type Site, startSite, type Target } from '../faults/site';
import { waitUntil } from '../support/waitUntil';

const MINUTES_20 = 1_200_000;

/** Returns the number of completed executions, which the server counts after it has answered. */
function countCompleted(metrics: ReadonlyMap<string, number>): number {
  const series = [...metrics].filter(([name]) => name.startsWith('plantroom_executions_completed_total{'));
  return series.reduce((sum, [, count]) => sum + count, 0);
}

/** Triggers the alerts on a real server and checks the metrics that their rules read. */
describe('the metrics of the alerts', () => {
  let root: string;
  let site: Site;
  let ahead = 0;
  let mqttId = '';
  let numbers: ReadonlyMap<string, number>;
  const clock = { now: () => Date.now() + ahead, monotonic: () => performance.now() + ahead };
  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'plantroom-alerts-'));
    writeFileSync(join(root, 'backups'), 'a file where the folder should be, as of a disk that is not mounted');
    site = await startSite(join(root, 'data'), {
      clock,
      flags: { 'metrics.listen': '127.0.0.1:0', 'backup.schedule': '30 2 * * *', 'backup.dir': join(root, 'backups') },
    });
    mqttId = getId(
      await site.call('connection.ConnectionService/CreateConnection', {
        connectorId: 'mqtt',
        name: 'Nobody there',
        enabled: true,
        configuration: { url: 'mqtt://127.0.0.1:1', uplinkTopic: 'site/{clientDeviceId}/up' },
      }),
    );
    await loseExecution(await site.createTarget());
    await createUnreachableExecutions();
    await waitUntil(async () => countCompleted((numbers = await getMetrics())) === 4);
  });
  afterAll(async () => {
    await site.stop();
    rmSync(root, { recursive: true, force: true });
  });

  const getMetrics = async (): Promise<ReadonlyMap<string, number>> => {
    const text = await (await fetch(`http://${site.app.addresses.metrics}/metrics`)).text();
    return new Map(
      text
        .split('\n')
        .filter((line) => /^[a-z]/.test(line))
        .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
    );
  };

  const execute = async (id: string, commandId: string): Promise<string> =>
    String((await site.call(`${COMMANDS}/ExecuteCommand`, { id, commandId })).json['executionId']);

  /** Runs one execution that provably does not reach its device. */
  async function loseExecution({ connectionId, deviceId, commandId }: Target): Promise<void> {
    const gateway = site.openGateway();
    await gateway.attach({ connectionId });
    const lost = await execute(deviceId, commandId);
    await gateway.next('command');
    gateway.result(lost, CommandResultCode.COMMAND_RESULT_CODE_UNREACHABLE);
    await gateway.next('commandResultAck');
    gateway.cancel();
  }

  /** Creates four executions on a gateway that never connected. Three are cancelled, and one waits. */
  async function createUnreachableExecutions(): Promise<void> {
    const connectionId = getId(
      await site.call('connection.ConnectionService/CreateConnection', { connectorId: 'gateway', name: 'Away' }),
    );
    const id = getId(
      await site.call(`${DEVICES}/CreateDigitalDevice`, {
        name: 'Far',
        physicalDevice: { connectionId, clientDeviceId: 'far' },
      }),
    );
    const commandId = getId(
      await site.call(`${COMMANDS}/CreateCommand`, {
        id,
        command: { name: 'Open', mode: 'direct', verificationStrategy: 'no_verification', directPayload: '{}' },
      }),
    );
    for (let n = 0; n < 3; n += 1)
      await site.call(`${COMMANDS}/CancelExecution`, { executionId: await execute(id, commandId) });
    await execute(id, commandId);
  }

  it.each([
    ['PlantroomBackupMissing (a schedule)', 'plantroom_backup_scheduled', 1],
    ['PlantroomBackupMissing (no visible backup)', 'plantroom_backup_last_success_timestamp_seconds', 0],
    [
      'PlantroomExecutionsFailing (those that did not reach their device)',
      'plantroom_executions_completed_total{state="transport_unreachable",withdrawn="no"}',
      1,
    ],
    [
      'PlantroomExecutionsFailing (the cancelled ones, which it excludes)',
      'plantroom_executions_completed_total{state="transport_unreachable",withdrawn="yes"}',
      3,
    ],
    ['PlantroomQueueGrowing (the waiting ones)', 'plantroom_executions_active{state="enqueued"}', 1],
  ])('include the data of %s', (_alert, series, value) => {
    expect(numbers.get(series)).toBe(value);
  });

  it('include the downtime of PlantroomConnectionDown', async () => {
    ahead += MINUTES_20;
    const series = `plantroom_connection_down_seconds{connection="${mqttId}",connector="mqtt"}`;
    expect((await getMetrics()).get(series)).toBeGreaterThan(900);
  });
});
