import { resolve } from 'node:path';
import { on } from 'node:events';
import {
  loadPackageDefinition,
  Metadata,
  type ChannelCredentials,
  type Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { engines, type TestEngine } from '../support/engines';
import { startTestApp, type TestApp } from '../support/testApp';

// Tests an integrator's client that knows only the proto files.
type Message = Record<string, unknown>;
type Unary = (
  request: Message,
  metadata: Metadata,
  answered: (error: ServiceError | null, answer: Message) => void,
) => void;
type Service = new (address: string, channel: ChannelCredentials) => Client;

const FILES = [
  'organization_access_control/access_control_service.proto',
  'connection/connection_service.proto',
  'digitaldevice/v2/digital_device_service.proto',
  'actuator_command/v2/actuator_command_service.proto',
  'gateway/v1/gateway_service.proto',
];
const loaded = loadPackageDefinition(
  loadSync(FILES, {
    includeDirs: [resolve('proto'), resolve('node_modules/google-proto-files')],
    keepCase: true,
    enums: String,
    longs: String,
    oneofs: true,
  }),
);

const SET_POSITION = {
  name: 'Set position',
  mode: 'COMMAND_MODE_DIRECT',
  verification_strategy: 'VERIFICATION_STRATEGY_NO_VERIFICATION',
  params_schema: { position: { type: 'PARAM_TYPE_NUMBER', min: 0, max: 100 } },
  direct_payload: '{"position": {{params.position}}}',
};

describe('an independent client generated from the proto files alone', () => {
  let server: TestApp;
  let metadata: Metadata;
  beforeAll(async () => {
    server = await startTestApp(engines().find(({ name }) => name === 'sqlite') as TestEngine);
    metadata = new Metadata();
    metadata.set('x-api-key', server.key);
    metadata.set('x-organization-id', server.organizationId);
  });
  afterAll(async () => await server.stop());

  /** Creates a client of the service over TLS that trusts only the CA of the server. */
  function client(fullName: string): Client {
    const MessageClass = fullName
      .split('.')
      .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], loaded) as Service;
    return server.client(MessageClass);
  }

  async function call(of: Client, method: string, request: Message): Promise<Message> {
    const unary = (of as unknown as Record<string, Unary>)[method] as Unary;
    return await new Promise((answered, failed) =>
      unary.call(of, request, metadata, (error, answer) => (error ? failed(error) : answered(answer))),
    );
  }

  /**
   * Attaches as gateway software and answers every command with ACCEPTED. Resolves when the server has sent its
   * welcome.
   */
  async function attach(connectionId: unknown, received: Message[]): Promise<ClientDuplexStream<Message, Message>> {
    const gateway = client('gateway.v1.GatewayService') as unknown as {
      Attach(fields: Metadata): ClientDuplexStream<Message, Message>;
    };
    const stream = gateway.Attach(metadata);
    stream.write({
      hello: { connection_id: connectionId, gateway_id: 'foreign', boot_id: 'one', store: 'GATEWAY_STORE_DURABLE' },
    });
    return await new Promise((welcome, failed) => {
      stream.on('error', failed);
      stream.on('data', (answer: Message) => {
        received.push(answer);
        if (answer['message'] === 'welcome') welcome(stream);
        const { execution_id } = (answer['command'] ?? {}) as { execution_id?: string };
        if (!execution_id) return;
        stream.write({ command_received: { execution_id } });
        stream.write({ command_result: { execution_id, result: 'COMMAND_RESULT_CODE_ACCEPTED' } });
      });
    });
  }

  it('creates a device, executes a command through its own gateway, watches it to the end, and lists it', async () => {
    const access = client('organization_access_control.AccessControlService');
    expect(await call(access, 'WhoAmI', {})).toMatchObject({ api_key: { organization_id: server.organizationId } });

    const connection = await call(client('connection.ConnectionService'), 'CreateConnection', {
      connector_id: 'gateway',
      name: 'Boiler room',
    });
    const devices = client('digitaldevice.v2.DigitalDeviceService');
    const device = await call(devices, 'CreateDigitalDevice', {
      name: 'Heating valve',
      physical_device: { client_device_id: 'valve-1', connection_id: connection['id'] },
    });
    const commands = client('actuator_command.v2.ActuatorCommandService');
    const command = await call(commands, 'CreateCommand', { id: device['id'], command: SET_POSITION });

    const received: Message[] = [];
    const gateway = await attach(connection['id'], received);
    const watch = (
      commands as unknown as { WatchExecutions(request: Message, fields: Metadata): ClientReadableStream<Message> }
    ).WatchExecutions({ id: device['id'] }, metadata);
    const answers = on(watch, 'data', { close: ['end'] }) as AsyncIterableIterator<[Message]>;
    await answers.next(); // the stream is open: it shows all later changes
    const params = { fields: { position: { numberValue: 40 } } };
    const { execution_id, accepted } = await call(commands, 'ExecuteCommand', {
      id: device['id'],
      command_id: command['id'],
      params,
    });
    expect(accepted).toBe(true);
    const states: unknown[] = [];
    for await (const [{ event }] of answers) {
      states.push((event as { to: unknown } | null)?.to);
      if (states.at(-1) === 'EXECUTION_STATE_ACCEPTED_NO_L4') break;
    }
    watch.on('error', () => {}); // the messages after the cancel
    watch.cancel();
    expect(states.map((state) => String(state).replace('EXECUTION_STATE_', ''))).toEqual([
      'ENQUEUED',
      'IN_TRANSIT',
      'DELIVERED',
      'ACCEPTED_NO_L4',
    ]);
    expect(received).toContainEqual(
      expect.objectContaining({ command: expect.objectContaining({ execution_id, client_device_id: 'valve-1' }) }),
    );

    const { items } = (await call(commands, 'ListExecutions', { id: device['id'] })) as { items: Message[] };
    expect(items).toEqual([expect.objectContaining({ id: execution_id, state: 'EXECUTION_STATE_ACCEPTED_NO_L4' })]);
    expect(await call(devices, 'ListDigitalDevices', {})).toMatchObject({
      total: 1,
      devices: [{ id: device['id'], name: 'Heating valve' }],
    });
    gateway.end();
  });

  it('reads the cause of an error from the status and the message', async () => {
    await expect(
      call(client('digitaldevice.v2.DigitalDeviceService'), 'GetDigitalDevice', { id: 'none' }),
    ).rejects.toMatchObject({ code: 5, details: expect.stringContaining('"none" not found') });
  });
});
