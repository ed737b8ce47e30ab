import { Client, status, type ServiceError } from '@grpc/grpc-js';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { readAsset } from '../../src/kernel/assets';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { headers, parseError, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { as, descriptors, startTestApp, type Outcome, type TestApp } from '../support/testApp';
import { NEW_VALUE, NewerProtos } from './newerProtos';

const newer = new NewerProtos(readAsset('image.binpb'));
const identity = (bytes: Buffer): Buffer => bytes;
/** The parts of an outcome that a client can depend on. */
const summarize = ({ code, error, answer }: Outcome): unknown => ({
  code,
  reason: error?.reason,
  violations: error?.violations,
  isAnswered: answer !== undefined,
});

function getDetails(name: string): MethodDescriptor {
  const found = [...descriptors.methods.values()].find(({ path }) => path.endsWith(`/${name}`));
  if (!found) throw new Error(`no method ${name}`);
  return found;
}

describe('clients of a newer proto', () => {
  let site: TestApp;
  let own: Record<string, string>;
  let client: Client;
  beforeAll(async () => {
    const [engine] = engines();
    if (!engine) throw new Error('no engine');
    site = await startTestApp(engine);
    own = as((await site.newKey(site.organizationId, { isAdmin: true })).key, site.organizationId);
    client = site.client(Client);
  });
  afterAll(async () => await site.stop());

  /** Calls a method with these fields and all new ones. Returns the fields of the response. */
  const callWithNewFields = async (name: string, fields: object): Promise<Readonly<Record<string, unknown>>> => {
    const descriptor = getDetails(name);
    const outcome = await site.send(descriptor, newer.bytes(descriptor.request.typeName, fields), own);
    if (!outcome.answer) throw new Error(`${name}: ${JSON.stringify(outcome.error)}`);
    return fromBinary(descriptor.response, outcome.answer);
  };
  const captureCallError = async (name: string, fields: object): Promise<GrpcErrorInfo | undefined> => {
    const descriptor = getDetails(name);
    return (await site.send(descriptor, newer.bytes(descriptor.request.typeName, fields), own)).error;
  };

  const call = async (path: string): Promise<GrpcErrorInfo> =>
    await new Promise((resolve) =>
      client.makeUnaryRequest(path, identity, identity, Buffer.alloc(0), headers(own), (error) =>
        resolve(parseError(error as ServiceError)),
      ),
    );

  const publicMethods = [...descriptors.methods.values()].filter(({ service }) => !service.startsWith('grpc.'));

  it.each(publicMethods.map((descriptor) => [descriptor.path, descriptor] as const))(
    '%s ignores unknown fields',
    async (_, descriptor) => {
      const request = newer.bytes(descriptor.request.typeName, {});
      expect(fromBinary(descriptor.request, request).$unknown).toHaveLength(8);
      const plain = await site.send(descriptor, toBinary(descriptor.request, create(descriptor.request)), own);
      const more = await site.send(descriptor, request, own);
      expect(summarize(more)).toEqual(summarize(plain));
    },
  );

  it('get correct responses for requests with unknown fields at every depth', async () => {
    const { id: connectionId } = await callWithNewFields('CreateConnection', {
      connectorId: 'gateway',
      name: 'Plant room',
      enabled: true,
      policy: { queueLimit: 5 },
    });
    const { id } = await callWithNewFields('CreateDigitalDevice', {
      name: 'Valve',
      physicalDevice: { clientDeviceId: 'valve-1', connectionId },
    });
    const { id: commandId } = await callWithNewFields('CreateCommand', {
      id,
      command: {
        name: 'Move',
        mode: 1,
        verificationStrategy: 1,
        directPayload: '{"to":"{{params.n}}"}',
        paramsSchema: { n: { type: 2, max: 9 } },
      },
    });
    const { executionId } = await callWithNewFields('ExecuteCommand', { id, commandId, params: { n: 4 } });
    expect(await callWithNewFields('GetExecution', { executionId })).toMatchObject({
      id: executionId,
      state: 1,
      params: { n: 4 },
    });
    expect(await callWithNewFields('ListDigitalDevices', { limit: 5 })).toMatchObject({ total: 1 });
    expect(await callWithNewFields('GetConnection', { id: connectionId })).toMatchObject({ policy: { queueLimit: 5 } });
  });

  it('get an error that names the field for an unknown enum value', async () => {
    const { id } = await callWithNewFields('CreateDigitalDevice', { name: 'Lamp' });
    const range = {
      sensorIds: ['00000000-0000-7000-8000-000000000000'],
      from: { seconds: 1n },
      to: { seconds: 2n },
      order: NEW_VALUE,
    };
    expect(await captureCallError('QueryRange', range)).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      fields: ['order'],
    });
    const command = { name: 'On', mode: NEW_VALUE, verificationStrategy: NEW_VALUE, directPayload: '{}' };
    expect(await captureCallError('CreateCommand', { id, command })).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      violations: {
        'command.mode': expect.stringContaining('direct'),
        'command.verificationStrategy': expect.any(String),
      },
    });
  });

  it('get an error for an unknown method', async () => {
    for (const service of new Set(publicMethods.map((descriptor) => descriptor.service)))
      expect(await call(`/${service}/Added`)).toMatchObject({ code: status.UNIMPLEMENTED });
    expect(await call('/later.v1.LaterService/Added')).toMatchObject({ code: status.UNIMPLEMENTED });
  });

  it('attach as gateways, get a rejection for an uplink of an unknown kind, and lose the stream after an unknown message', async () => {
    const { id: connectionId } = await callWithNewFields('CreateConnection', {
      connectorId: 'gateway',
      name: 'Boiler house',
      enabled: true,
    });
    const { path, response } = getDetails('Attach');
    const stream = client.makeBidiStreamRequest(path, identity, identity, headers(own));
    const ended = new Promise<GrpcErrorInfo>((resolve) =>
      stream.on('error', (error) => resolve(parseError(error as ServiceError))),
    );
    const answers = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    const send = (message: object): unknown =>
      stream.write(Buffer.from(newer.bytes('gateway.v1.AttachRequest', { message })));
    const next = async (): Promise<unknown> => fromBinary(response, (await answers.next()).value as Buffer);
    const known = [{ executionId: '00000000-0000-7000-8000-000000000000', status: 1 }];
    send({
      case: 'hello',
      value: {
        connectionId,
        gatewayId: 'gateway-1',
        bootId: 'boot-1',
        store: 1,
        known,
        highestProtocolVersion: NEW_VALUE,
      },
    });
    expect(await next()).toMatchObject({ message: { case: 'welcome', value: { protocolVersion: 1 } } });
    send({
      case: 'uplink',
      value: { uplinkId: 'uplink-1', clientDeviceId: 'valve-1', payload: { case: 'addedCase0', value: 'news' } },
    });
    expect(await next()).toMatchObject({ message: { case: 'uplinkAck', value: { uplinkId: 'uplink-1', outcome: 3 } } });
    send({
      case: 'uplink',
      value: { uplinkId: 'uplink-2', clientDeviceId: 'valve-1', payload: { case: 'json', value: { position: 3 } } },
    });
    expect(await next()).toMatchObject({ message: { case: 'uplinkAck', value: { uplinkId: 'uplink-2', outcome: 1 } } });
    send({ case: 'addedCase0', value: 'news' });
    expect(await ended).toMatchObject({
      code: status.INVALID_ARGUMENT,
      reason: 'validation_failed',
      violations: { message: expect.stringContaining('of an unknown kind') },
    });
  });
});
