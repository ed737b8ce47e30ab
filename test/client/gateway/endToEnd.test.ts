import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createPlantroomClient, watchExecution, type PlantroomClient } from '../../../src/client';
import { type Gateway, type GatewayEvent, memoryStore, sqliteStore, startGateway } from '../../../src/client/gateway';
import {
  CommandMode,
  ExecutionState,
  VerificationStrategy,
} from '../../../src/client/gen/actuator_command/v2/actuator_command_service';
import { ReadingOrder } from '../../../src/client/gen/sensorquery/v1/sensor_query_service';
import { engines } from '../../support/engines';
import { startTestApp, type TestApp } from '../../support/testApp';

describe('a gateway and the real server', () => {
  let server: TestApp;
  let client: PlantroomClient;
  let connectionId: string;
  let deviceId: string;
  let commandId: string;
  let sensorId: string;
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-gateway-'));
  let where: { address: string; apiKey: string; organizationId: string; ca: Buffer };

  beforeAll(async () => {
    const [engine] = engines();
    if (!engine) throw new Error('no engine');
    server = await startTestApp(engine);
    where = {
      address: server.app.addresses.grpc.replace('127.0.0.1', 'localhost'),
      apiKey: server.key,
      organizationId: server.organizationId,
      ca: readFileSync(server.app.ca ?? ''),
    };
    client = createPlantroomClient(where);
    ({ id: connectionId } = await client.connections.createConnection({
      connectorId: 'gateway',
      name: 'Plant room',
      enabled: true,
    }));
    ({ id: deviceId } = await client.devices.createDigitalDevice({
      name: 'Valve',
      physicalDevice: { clientDeviceId: 'valve-1', connectionId },
    }));
    const { sensorTemplates } = await client.sensorTemplates.listSensorTemplates({});
    const { sensors } = await client.devices.addSensorsToDevice({
      id: deviceId,
      sensorTemplateIds: [sensorTemplates.find(({ keyName }) => keyName === 'valve_position')?.id ?? ''],
    });
    sensorId = sensors[0]?.id ?? '';
    await client.devices.setSensorMappings({ id: deviceId, mappings: [{ sensorId, sourcePath: 'position' }] });
    const command = {
      name: 'Move',
      mode: CommandMode.COMMAND_MODE_DIRECT,
      directPayload: '{"position":"{{params.position}}"}',
      paramsSchema: { position: {} },
      verificationStrategy: VerificationStrategy.VERIFICATION_STRATEGY_WAIT_NEXT_UPLINK,
      expectedSensorStates: [{ sensorId, valueTemplate: '{{params.position}}' }],
      convergenceTimeout: 60,
    };
    ({ id: commandId } = await client.commands.createCommand({ id: deviceId, command }));
  });
  afterAll(async () => {
    client.close();
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  it('carry a command to a device and its effect back: executed, delivered, accepted, converged', async () => {
    const { key } = await server.newKey(server.organizationId, { scopes: ['gateways:write'] });
    const events: GatewayEvent['event'][] = [];
    const delivered: unknown[] = [];
    const gateway: Gateway = startGateway({
      ...where,
      apiKey: () => key,
      connectionId,
      software: 'test 1',
      store: memoryStore(),
      onEvent: ({ event }) => events.push(event),
      deliver: ({ payload }) => {
        delivered.push(payload);
        // The valve reports its position a moment later, after the result was sent.
        setTimeout(
          () => void gateway.send({ clientDeviceId: 'valve-1', payload: { kind: 'json', value: { position: 40 } } }),
          20,
        );
        return { result: 'accepted', message: 'moved' };
      },
    });
    const { executionId } = await client.commands.executeCommand({ id: deviceId, commandId, params: { position: 40 } });
    const states: string[] = [];
    for await (const { state } of watchExecution(client, executionId))
      states.push(ExecutionState[state].replace('EXECUTION_STATE_', ''));
    expect([delivered, states.at(-1)]).toEqual([[{ kind: 'json', value: { position: 40 } }], 'CONVERGED']);
    await gateway.stop();
    await gateway.ended;
    expect(events.filter((event) => event !== 'uplink_sent' && event !== 'uplink_acknowledged')).toEqual([
      'attached',
      'command_taken',
      'command_answered',
      'command_acknowledged',
    ]);
  });

  it('lose no uplink of a durable store, and none of its values', async () => {
    const acknowledged: string[] = [];
    const count = 1000;
    const all = Promise.withResolvers<void>();
    const gateway = startGateway({
      ...where,
      connectionId,
      store: sqliteStore(join(folder, 'gateway.db')),
      deliver: () => ({ result: 'refused' }),
      onEvent: (event) => {
        if (event.event === 'uplink_acknowledged') acknowledged.push(event.outcome);
        if (acknowledged.length === count) all.resolve();
      },
    });
    const start = Date.now() - count;
    await Promise.all(
      Array.from(
        { length: count },
        async (_, n) =>
          await gateway.send({
            clientDeviceId: 'valve-1',
            time: new Date(start + n),
            payload: { kind: 'json', value: { position: n, note: 'Grüße 🌡' } },
          }),
      ),
    );
    await all.promise;
    await gateway.stop();
    expect(new Set(acknowledged)).toEqual(new Set(['stored']));
    const { readings } = await client.readings.queryRange({
      sensorIds: [sensorId],
      from: new Date(start),
      to: new Date(start + count),
      order: ReadingOrder.READING_ORDER_ASC,
      pageSize: 5,
    });
    expect(readings.map(({ value }) => value?.value)).toEqual([0, 1, 2, 3, 4]);
  });

  it('disconnect when another gateway takes over, and say when the first one returns', async () => {
    const { id } = await client.connections.createConnection({
      connectorId: 'gateway',
      name: 'Boiler room',
      enabled: true,
    });
    const first = Promise.withResolvers<void>();
    const replaced = Promise.withResolvers<GatewayEvent>();
    const onEvent = (event: GatewayEvent): void => {
      if (event.event === 'attached') first.resolve();
      if (event.event === 'detached') replaced.resolve(event);
    };
    const options = { ...where, connectionId: id, deliver: () => ({ result: 'refused' }) as const };
    const older = startGateway({ ...options, store: memoryStore(), onEvent });
    await first.promise;
    const newer = startGateway({ ...options, store: memoryStore() });
    expect(await replaced.promise).toMatchObject({
      event: 'detached',
      error: { status: 'ABORTED', reason: 'gateway_replaced' },
      retryInMs: 30_000,
    });
    await Promise.all([older.stop(), newer.stop()]);
  });

  it('disconnect if the key may not attach, and explain why', async () => {
    const { key } = await server.newKey(server.organizationId, { scopes: ['devices:read'] });
    const gateway = startGateway({
      ...where,
      apiKey: key,
      connectionId,
      store: memoryStore(),
      deliver: () => ({ result: 'refused' }),
      onRejected: 'stop',
    });
    await expect(gateway.ended).rejects.toMatchObject({ status: 'PERMISSION_DENIED', reason: 'insufficient_scope' });
  });
});
