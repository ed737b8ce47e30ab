import { credentials, loadPackageDefinition, status, type Client, type ServiceError } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer } from '@grpc/proto-loader';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { headers, parseError, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { as, startTestApp, type TestApp } from '../support/testApp';

type Fields = Readonly<Record<string, unknown>>;
/** A service as its proto creates it at run time. */
type Stub = Client & Readonly<Record<string, (...args: unknown[]) => unknown>>;
/** A stream opened by such a stub. */
interface Stream extends AsyncIterable<Fields> {
  write(message: object): unknown;
  end(): void;
  cancel(): void;
}

const FOLDER = 'proto-releases';

describe.each(readdirSync(FOLDER))('clients of the protos of %s', (image) => {
  let site: TestApp;
  let stub: (path: string) => Stub;
  const clients: Client[] = [];
  beforeAll(async () => {
    const [engine] = engines();
    if (!engine) throw new Error('no engine');
    site = await startTestApp(engine);
    const definition = loadFileDescriptorSetFromBuffer(readFileSync(join(FOLDER, image)), {
      longs: Number,
      enums: String,
      defaults: true,
      oneofs: true,
    });
    const services = loadPackageDefinition(definition) as unknown as Record<string, unknown>;
    const tls = credentials.createSsl(readFileSync(site.app.ca ?? ''));
    stub = (path) => {
      const Service = path
        .split('.')
        .reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], services) as new (
        address: string,
        tls: unknown,
      ) => Stub;
      const client = new Service(site.app.addresses.grpc.replace('127.0.0.1', 'localhost'), tls);
      clients.push(client);
      return client;
    };
  });
  afterAll(async () => {
    for (const client of clients) client.close();
    await site.stop();
  });

  const metadata = (): unknown => headers(as(site.key, site.organizationId));
  const callMethod = async (
    service: Stub,
    method: string,
    request: object,
  ): Promise<Fields & { readonly id: string }> =>
    await new Promise((resolve, reject) =>
      service[method]?.(request, metadata(), (error: ServiceError | null, answer: Fields & { readonly id: string }) =>
        error ? reject(error) : resolve(answer),
      ),
    );
  const captureCallError = async (service: Stub, method: string, request: object): Promise<GrpcErrorInfo> =>
    await callMethod(service, method, request).then(() => Promise.reject(new Error('it was answered')), parseError);

  // Stubs created from a descriptor set use proto field names, and a list of entries instead of a map.
  it('can use everything that their version offered: identity, devices, commands, executions, a gateway, readings', async () => {
    const [devices, commands, connections] = [
      stub('digitaldevice.v2.DigitalDeviceService'),
      stub('actuator_command.v2.ActuatorCommandService'),
      stub('connection.ConnectionService'),
    ];
    const access = stub('organization_access_control.AccessControlService');
    expect(await callMethod(access, 'whoAmI', {})).toMatchObject({ api_key: { organization_id: site.organizationId } });
    expect(
      await callMethod(stub('OrganizationsService'), 'getOrganization', { id: site.organizationId }),
    ).toMatchObject({
      id: site.organizationId,
    });
    const { id: connectionId } = await callMethod(connections, 'createConnection', {
      connector_id: 'gateway',
      name: 'Plant room',
      enabled: true,
    });
    const { id } = await callMethod(devices, 'createDigitalDevice', {
      name: 'Valve',
      physical_device: { client_device_id: 'valve-1', connection_id: connectionId },
    });
    const command = {
      name: 'Move',
      mode: 'COMMAND_MODE_DIRECT',
      verification_strategy: 'VERIFICATION_STRATEGY_NO_VERIFICATION',
      direct_payload: '{"to":40}',
    };
    const { id: commandId } = await callMethod(commands, 'createCommand', { id, command });
    expect(await callMethod(devices, 'listDigitalDevices', { limit: 10 })).toMatchObject({
      total: 1,
      devices: [{ id, name: 'Valve' }],
    });

    const watch = commands.watchExecutions?.({ id }, metadata()) as Stream;
    const events = watch[Symbol.asyncIterator]();
    const firstEvent = (await events.next()).value as Fields;
    expect(firstEvent).toMatchObject({ execution: null, resume_token: expect.stringMatching(/./) });
    const { execution_id: executionId } = await callMethod(commands, 'executeCommand', { id, command_id: commandId });
    expect((await events.next()).value).toMatchObject({
      execution: { id: executionId },
      event: { sequence: 1, to: 'EXECUTION_STATE_ENQUEUED' },
    });

    const gateway = stub('gateway.v1.GatewayService').attach?.(metadata()) as Stream;
    const messages = gateway[Symbol.asyncIterator]();
    const next = async (): Promise<unknown> => (await messages.next()).value;
    gateway.write({
      hello: {
        connection_id: connectionId,
        gateway_id: 'gateway-1',
        boot_id: 'boot-1',
        store: 'GATEWAY_STORE_DURABLE',
      },
    });
    expect(await next()).toMatchObject({ message: 'welcome', welcome: { max_in_flight: expect.any(Number) } });
    expect(await next()).toMatchObject({
      message: 'command',
      command: { execution_id: executionId, attempt: 1, client_device_id: 'valve-1' },
    });
    gateway.write({ command_received: { execution_id: executionId } });
    gateway.write({ command_result: { execution_id: executionId, result: 'COMMAND_RESULT_CODE_ACCEPTED' } });
    expect(await next()).toMatchObject({
      message: 'command_result_ack',
      command_result_ack: { execution_id: executionId, outcome: 'RESULT_OUTCOME_APPLIED' },
    });
    gateway.write({
      uplink: {
        uplink_id: 'uplink-1',
        client_device_id: 'valve-1',
        json: { fields: [{ key: 'position', value: { number_value: 40 } }] },
      },
    });
    expect(await next()).toMatchObject({
      message: 'uplink_ack',
      uplink_ack: { uplink_id: 'uplink-1', outcome: 'UPLINK_OUTCOME_STORED' },
    });
    gateway.end();

    let state: unknown;
    while (state !== 'EXECUTION_STATE_ACCEPTED_NO_L4')
      state = ((await events.next()).value as { execution: Fields }).execution.state;
    (watch as unknown as NodeJS.EventEmitter).on('error', () => {}); // The stream ends with an error.
    watch.cancel();
    expect(await callMethod(commands, 'getExecution', { execution_id: executionId })).toMatchObject({
      state,
      evidence: 'EXECUTION_EVIDENCE_NATIVE_ACK',
    });
    expect(await callMethod(commands, 'listExecutions', { id })).toMatchObject({ items: [{ id: executionId, state }] });
  });

  it('get the same error texts', async () => {
    const commands = stub('actuator_command.v2.ActuatorCommandService');
    expect(
      await captureCallError(commands, 'getExecution', { execution_id: '00000000-0000-7000-8000-000000000000' }),
    ).toMatchObject({ code: status.NOT_FOUND, reason: 'execution_not_found', requestId: expect.stringMatching(/./) });
    expect(await captureCallError(commands, 'createCommand', { id: 'x' })).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      fields: ['command'],
    });
  });

  it('find every method that they know', async () => {
    const definition = loadFileDescriptorSetFromBuffer(readFileSync(join(FOLDER, image)));
    const methods = Object.values(definition).flatMap((service) =>
      typeof service === 'object' && 'format' in service
        ? []
        : Object.values(
            service as Readonly<Record<string, { path: string; requestStream: boolean; responseStream: boolean }>>,
          ),
    );
    const unary = methods.filter(
      ({ path, requestStream, responseStream }) =>
        !requestStream && !responseStream && !/^\/(grpc|api|google)\./.test(path),
    );
    expect(unary.length).toBeGreaterThan(60);
    const client = stub('userprofile.UserProfileService');
    const getCode = async (path: string): Promise<number> =>
      await new Promise((resolve) =>
        client.makeUnaryRequest(
          path,
          (bytes: Buffer) => bytes,
          (bytes) => bytes,
          Buffer.alloc(0),
          headers({}),
          (error) => resolve(error?.code ?? status.OK),
        ),
      );
    expect(new Set(await Promise.all(unary.map(async ({ path }) => await getCode(path))))).toEqual(
      new Set([status.UNAUTHENTICATED]),
    ); // The call has no API key.
  });
});
