import { Client, credentials, status, type ServiceError } from '@grpc/grpc-js';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { readFileSync } from 'node:fs';
import { asset } from '../../src/kernel/assets';
import type { MethodFacts } from '../../src/rpc/descriptors';
import { headers, seen, type SeenError } from '../support/edge';
import { engines } from '../support/engines';
import { as, descriptors, startTestApp, type Outcome, type TestApp } from '../support/testApp';
import { NEW_VALUE, NewerProtos } from './newerProtos';

const newer = new NewerProtos(asset('image.binpb'));
const same = (bytes: Buffer): Buffer => bytes;
/** What a client can go by. */
const essence = ({ code, error, answer }: Outcome): unknown => ({ code, reason: error?.reason, violations: error?.violations, isAnswered: answer !== undefined });

function factsOf(name: string): MethodFacts {
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
    client = new Client(site.app.addresses.grpc.replace('127.0.0.1', 'localhost'), credentials.createSsl(readFileSync(site.app.ca ?? '')));
  });
  afterAll(async () => {
    client.close();
    await site.stop();
  });

  /** Calls a method with these fields and all that is new; the fields of its answer. */
  const ask = async (name: string, fields: object): Promise<Readonly<Record<string, unknown>>> => {
    const facts = factsOf(name);
    const outcome = await site.send(facts, newer.bytes(facts.request.typeName, fields), own);
    if (!outcome.answer) throw new Error(`${name}: ${JSON.stringify(outcome.error)}`);
    return fromBinary(facts.response, outcome.answer);
  };
  const refused = async (name: string, fields: object): Promise<SeenError | undefined> => {
    const facts = factsOf(name);
    return (await site.send(facts, newer.bytes(facts.request.typeName, fields), own)).error;
  };

  const call = async (path: string): Promise<SeenError> =>
    await new Promise((resolve) => client.makeUnaryRequest(path, same, same, Buffer.alloc(0), headers(own), (error) => resolve(seen(error as ServiceError))));

  const ours = [...descriptors.methods.values()].filter(({ service }) => !service.startsWith('grpc.'));

  it.each(ours.map((facts) => [facts.path, facts] as const))('%s answers as if what is new were not there', async (_, facts) => {
    const request = newer.bytes(facts.request.typeName, {});
    expect(fromBinary(facts.request, request).$unknown).toHaveLength(8);
    const plain = await site.send(facts, toBinary(facts.request, create(facts.request)), own);
    const more = await site.send(facts, request, own);
    expect(essence(more)).toEqual(essence(plain));
  });

  it('get what they ask for, with new fields at every depth', async () => {
    const { id: connectionId } = await ask('CreateConnection', { connectorId: 'gateway', name: 'Plant room', enabled: true, policy: { queueLimit: 5 } });
    const { id } = await ask('CreateDigitalDevice', { name: 'Valve', physicalDevice: { clientDeviceId: 'valve-1', connectionId } });
    const { id: commandId } = await ask('CreateCommand', { id, command: { name: 'Move', mode: 1, verificationStrategy: 1, directPayload: '{"to":"{{params.n}}"}', paramsSchema: { n: { type: 2, max: 9 } } } });
    const { executionId } = await ask('ExecuteCommand', { id, commandId, params: { n: 4 } });
    expect(await ask('GetExecution', { executionId })).toMatchObject({ id: executionId, state: 1, params: { n: 4 } });
    expect(await ask('ListDigitalDevices', { limit: 5 })).toMatchObject({ total: 1 });
    expect(await ask('GetConnection', { id: connectionId })).toMatchObject({ policy: { queueLimit: 5 } });
  });

  it('are told of a value that this server does not know, by its field', async () => {
    const { id } = await ask('CreateDigitalDevice', { name: 'Lamp' });
    const range = { sensorIds: ['00000000-0000-7000-8000-000000000000'], from: { seconds: 1n }, to: { seconds: 2n }, order: NEW_VALUE };
    expect(await refused('QueryRange', range)).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', fields: ['order'] });
    const command = { name: 'On', mode: NEW_VALUE, verificationStrategy: NEW_VALUE, directPayload: '{}' };
    expect(await refused('CreateCommand', { id, command })).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', violations: { 'command.mode': expect.stringContaining('direct'), 'command.verificationStrategy': expect.any(String) } });
  });

  it('are told of a method that this server does not have', async () => {
    for (const service of new Set(ours.map((facts) => facts.service))) expect(await call(`/${service}/Added`)).toMatchObject({ code: status.UNIMPLEMENTED });
    expect(await call('/later.v1.LaterService/Added')).toMatchObject({ code: status.UNIMPLEMENTED });
  });

  it('gateways: attach, are told of an uplink of a kind that this server does not know, and of such a message, which ends the stream', async () => {
    const { id: connectionId } = await ask('CreateConnection', { connectorId: 'gateway', name: 'Boiler house', enabled: true });
    const { path, response } = factsOf('Attach');
    const stream = client.makeBidiStreamRequest(path, same, same, headers(own));
    const ended = new Promise<SeenError>((resolve) => stream.on('error', (error) => resolve(seen(error as ServiceError))));
    const answers = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    const send = (message: object): unknown => stream.write(Buffer.from(newer.bytes('gateway.v1.AttachRequest', { message })));
    const next = async (): Promise<unknown> => fromBinary(response, (await answers.next()).value as Buffer);
    const known = [{ executionId: '00000000-0000-7000-8000-000000000000', status: 1 }];
    send({ case: 'hello', value: { connectionId, gatewayId: 'gateway-1', bootId: 'boot-1', store: 1, known, highestProtocolVersion: NEW_VALUE } });
    expect(await next()).toMatchObject({ message: { case: 'welcome', value: { protocolVersion: 1 } } });
    send({ case: 'uplink', value: { uplinkId: 'uplink-1', clientDeviceId: 'valve-1', payload: { case: 'addedCase0', value: 'news' } } });
    expect(await next()).toMatchObject({ message: { case: 'uplinkAck', value: { uplinkId: 'uplink-1', outcome: 3 } } });
    send({ case: 'uplink', value: { uplinkId: 'uplink-2', clientDeviceId: 'valve-1', payload: { case: 'json', value: { position: 3 } } } });
    expect(await next()).toMatchObject({ message: { case: 'uplinkAck', value: { uplinkId: 'uplink-2', outcome: 1 } } });
    send({ case: 'addedCase0', value: 'news' });
    expect(await ended).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed', violations: { message: expect.stringContaining('none that this server knows') } });
  });
});
