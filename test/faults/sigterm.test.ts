import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  ActuatorCommandServiceClient,
  WatchExecutionsRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import {
  CreateDigitalDeviceRequest,
  DigitalDeviceServiceClient,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import { GatewayServiceClient, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { openFile } from '../../src/database/engines/sqliteConnection';
import { GatewayClient } from '../connections/gatewayClient';
import { plantroomServe } from '../support/commandLine';
import { headers, parseError, type GrpcErrorInfo } from '../support/edge';
import { HttpClient } from '../support/http';
import { waitUntil } from '../support/waitUntil';
import { DEVICES, getId, getReason } from './site';

const WRITERS = 4;
const MIN_STORED = 60;

/** What the callers were answered, by the names of what they created. */
interface SignalReport {
  readonly stored: Set<string>;
  readonly refused: Set<string>;
  /** Other outcomes of calls. */
  readonly others: Set<string>;
}

describe('SIGTERM under load', () => {
  it('loses nothing acknowledged, stores nothing rejected, ends streams with UNAVAILABLE, and exits with 0 although a client is frozen', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-sigterm-'));
    const keyFile = join(folder, 'key.json');
    const server = await plantroomServe({
      PLANTROOM_DATA_DIR: join(folder, 'data'),
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_TLS_MODE: 'off',
      PLANTROOM_LIMITS_SHUTDOWN_TIMEOUT_MS: '500',
      PLANTROOM_BOOTSTRAP_KEY_FILE: keyFile,
    });
    const [grpc, http] = [String(server.ready['grpc']), String(server.ready['http'])];
    const { organizationId, apiKey } = JSON.parse(readFileSync(keyFile, 'utf8')) as {
      organizationId: string;
      apiKey: string;
    };
    const as = { 'x-api-key': apiKey, 'x-organization-id': organizationId };
    const rest = new HttpClient(http, undefined, as);
    const devices = new DigitalDeviceServiceClient(grpc, credentials.createInsecure(), { 'grpc.enable_retries': 0 });
    const commands = new ActuatorCommandServiceClient(grpc, credentials.createInsecure());
    const gateways = new GatewayServiceClient(grpc, credentials.createInsecure());
    const frozen = connect(Number(grpc.split(':')[1]), '127.0.0.1');
    const report: SignalReport = { stored: new Set(), refused: new Set(), others: new Set() };
    const acked = new Set<string>();
    try {
      frozen.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1'); // never reads or answers
      frozen.pause();
      const connectionId = getId(
        await rest.send('POST', '/connection.ConnectionService/CreateConnection', {
          body: { connectorId: 'gateway', name: 'Gateway' },
        }),
      );
      const gateway = new GatewayClient(gateways, apiKey, organizationId);
      await gateway.attach({ connectionId });
      const watching = new Promise<GrpcErrorInfo>((ended) =>
        commands
          .watchExecutions(WatchExecutionsRequest.fromPartial({}), headers(as))
          .on('data', () => {})
          .on('error', (error: ServiceError) => ended(parseError(error))),
      );

      const ending = new AbortController();
      const createDevicesOverRest = async (writer: number): Promise<void> => {
        for (let at = 0; !ending.signal.aborted; at += 1) {
          const name = `rest ${writer} ${at}`;
          const answer = await rest
            .send('POST', `/${DEVICES}/CreateDigitalDevice`, { body: { name } })
            .catch((error: unknown) => String((error as NodeJS.ErrnoException).code));
          if (typeof answer === 'string') {
            report.others.add(answer);
            return;
          }
          if (answer.status === 200) report.stored.add(name);
          else if (getReason(answer) === 'shutting_down') report.refused.add(name);
          else report.others.add(`${answer.status} ${getReason(answer)}`);
        }
      };
      const createDevicesOverGrpc = async (writer: number): Promise<void> => {
        for (let at = 0; !ending.signal.aborted; at += 1) {
          const name = `grpc ${writer} ${at}`;
          const error = await new Promise<ServiceError | null>((done) =>
            devices.createDigitalDevice(CreateDigitalDeviceRequest.fromPartial({ name }), headers(as), (failure) =>
              done(failure),
            ),
          );
          if (!error) report.stored.add(name);
          else if (parseError(error).reason === 'shutting_down') report.refused.add(name);
          else {
            report.others.add(`${error.code}`);
            return;
          }
        }
      };
      const uplinks = async (): Promise<void> => {
        for (let at = 0; !ending.signal.aborted; at += 1) {
          gateway.uplink(`uplink-${at}`);
          const ack = await gateway.next('uplinkAck').catch(() => undefined);
          if (!ack) return;
          if (ack.outcome === UplinkOutcome.UPLINK_OUTCOME_STORED) acked.add(ack.uplinkId);
        }
      };
      const load = [
        ...Array.from(
          { length: WRITERS },
          async (_, at) => await Promise.all([createDevicesOverRest(at), createDevicesOverGrpc(at)]),
        ),
        uplinks(),
      ];
      await waitUntil(() => report.stored.size >= MIN_STORED && acked.size >= 5);

      expect(await server.stop()).toBe(0);
      ending.abort();
      await Promise.all(load);
      expect(await watching).toMatchObject({ code: status.UNAVAILABLE, reason: 'shutting_down' });
      expect(await gateway.ended).toMatchObject({ code: status.UNAVAILABLE, reason: 'shutting_down' });
      // After the port was closed no call is answered. No other outcome is allowed.
      for (const other of report.others)
        expect(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', String(status.UNAVAILABLE)]).toContain(other);

      const database = openFile(join(folder, 'data', 'plantroom.db'), { readOnly: true, busyTimeoutMs: 0 });
      const names = new Set(database.prepare('select name from digital_devices').pluck().all());
      const ids = new Set(database.prepare('select uplink_id from uplinks_seen').pluck().all());
      database.close();
      expect([...report.stored].filter((name) => !names.has(name))).toEqual([]);
      expect([...report.refused].filter((name) => names.has(name))).toEqual([]);
      expect([...acked].filter((id) => !ids.has(id))).toEqual([]);
      expect(server.stdout()).toContain('"server.stopped"');
    } finally {
      for (const client of [rest, devices, commands, gateways]) client.close();
      frozen.destroy();
      server.child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
