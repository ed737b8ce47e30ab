import { credentials } from '@grpc/grpc-js';
import { readFileSync } from 'node:fs';
import { createPlantroomClient, type PlantroomClient } from '../../../src/client';
import {
  CommandMode,
  VerificationStrategy,
} from '../../../src/client/gen/actuator_command/v2/actuator_command_service';
import { CommandResultCode, GatewayServiceClient } from '../../../src/gen/gateway/v1/gateway_service';
import { GatewayClient } from '../../connections/gatewayClient';
import { engines } from '../../support/engines';
import { startTestApp, type TestApp } from '../../support/testApp';
import { CuttingProxy } from '../cuttingProxy';

/** A server with one valve behind a gateway, and a connection to it that can be broken. */
export interface StreamSite {
  readonly server: TestApp;
  /** Connects directly to the server. */
  readonly client: PlantroomClient;
  /** Connects through the proxy. */
  readonly shaky: PlantroomClient;
  readonly proxy: CuttingProxy;
  readonly connectionId: string;
  readonly deviceId: string;
  readonly commandId: string;
  readonly sensorId: string;
  /** Attaches gateway software for the valve. */
  attach(): Promise<GatewayClient>;
  /** Receives a command and answers it. */
  carryOut(gateway: GatewayClient): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the site. */
export async function startStreamSite(): Promise<StreamSite> {
  const [engine] = engines();
  if (!engine) throw new Error('no engine');
  const server = await startTestApp(engine);
  const port = Number(server.app.addresses.grpc.split(':').at(-1));
  const proxy = new CuttingProxy(port);
  await proxy.start();
  const ca = readFileSync(server.app.ca ?? '');
  const open = (at: number): PlantroomClient =>
    createPlantroomClient({
      address: `localhost:${at}`,
      apiKey: server.key,
      organizationId: server.organizationId,
      ca,
    });
  const [client, shaky] = [open(port), open(proxy.port)];
  const gateways = new GatewayServiceClient(`localhost:${port}`, credentials.createSsl(ca));
  const { id: connectionId } = await client.connections.createConnection({
    connectorId: 'gateway',
    name: 'Plant room',
    enabled: true,
  });
  const valve = await createValve(client, connectionId);
  const { key } = await server.newKey(server.organizationId);
  return {
    server,
    client,
    shaky,
    proxy,
    connectionId,
    ...valve,
    attach: async () => {
      const gateway = new GatewayClient(gateways, key, server.organizationId);
      await gateway.attach({ connectionId });
      return gateway;
    },
    carryOut: async (gateway) => {
      const { executionId } = await gateway.next('command');
      gateway.received(executionId);
      gateway.result(executionId, CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED);
      await gateway.next('commandResultAck');
    },
    stop: async () => {
      for (const each of [client, shaky, gateways]) each.close();
      await proxy.stop();
      await server.stop();
    },
  };
}

async function createValve(
  client: PlantroomClient,
  connectionId: string,
): Promise<{ deviceId: string; commandId: string; sensorId: string }> {
  const { id: deviceId } = await client.devices.createDigitalDevice({
    name: 'Valve',
    physicalDevice: { clientDeviceId: 'device-1', connectionId },
  });
  const { sensorTemplates } = await client.sensorTemplates.listSensorTemplates({});
  const template = sensorTemplates.find(({ keyName }) => keyName === 'valve_position')?.id ?? '';
  const { sensors } = await client.devices.addSensorsToDevice({ id: deviceId, sensorTemplateIds: [template] });
  const sensorId = sensors[0]?.id ?? '';
  await client.devices.setSensorMappings({ id: deviceId, mappings: [{ sensorId, sourcePath: 'position' }] });
  const command = {
    name: 'Move',
    mode: CommandMode.COMMAND_MODE_DIRECT,
    verificationStrategy: VerificationStrategy.VERIFICATION_STRATEGY_NO_VERIFICATION,
    directPayload: '{"position":"{{params.n}}"}',
    paramsSchema: { n: {} },
  };
  const { id: commandId } = await client.commands.createCommand({ id: deviceId, command });
  return { deviceId, commandId, sensorId };
}
