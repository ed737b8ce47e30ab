import { status } from '@grpc/grpc-js';
import { UserProfileServiceClient, UserProfileServiceService } from '../../src/gen/userprofile/user_profile_service';
import {
  HealthClient,
  HealthCheckResponse_ServingStatus as Serving,
  type HealthCheckResponse,
} from '../../src/gen/grpc/health/v1/health';
import {
  ServerReflectionClient,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
} from '../../src/gen/grpc/reflection/v1/reflection';
import { ServerReflectionClient as AlphaClient } from '../../src/gen/grpc/reflection/v1alpha/reflection';
import { FileDescriptorProto } from '../../src/gen/google/protobuf/descriptor';
import { call, callFails, headers, parseError, startEdge, type TestEdge } from '../support/edge';
import type { ServiceError } from '@grpc/grpc-js';
import type { Services } from '../../src/api/services';

const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
type Question = NonNullable<ServerReflectionRequest['messageRequest']>;

const USERS = 'userprofile.UserProfileService';
const addUsers = (getPersonalUser: () => Promise<void>) => (server: Services) =>
  server.addService(UserProfileServiceService, {
    getPersonalUser: async () => {
      await getPersonalUser();
      return { id: 'u', name: 'n', email: '', createdAt: undefined, updatedAt: undefined, memberships: [] };
    },
  });

/** Sends several requests to reflection on one stream, one after the other. */
async function queryReflection(
  edge: TestEdge,
  questions: Question[],
  Client: typeof ServerReflectionClient | typeof AlphaClient = ServerReflectionClient,
): Promise<ServerReflectionResponse['messageResponse'][]> {
  const stream = edge.client(Client).serverReflectionInfo(headers(FIELDS));
  for (const messageRequest of questions) stream.write({ host: '', messageRequest });
  stream.end();
  const answers: ServerReflectionResponse['messageResponse'][] = [];
  for await (const one of stream) answers.push((one as ServerReflectionResponse).messageResponse);
  return answers;
}

const listFiles = (answer: ServerReflectionResponse['messageResponse']): FileDescriptorProto[] =>
  answer?.$case === 'fileDescriptorResponse'
    ? answer.value.fileDescriptorProto.map((bytes) => FileDescriptorProto.decode(bytes))
    : [];

const listNames = (answer: ServerReflectionResponse['messageResponse']): string[] =>
  listFiles(answer).map(({ name }) => name ?? '');

describe('reflection', () => {
  let edge: TestEdge;
  beforeAll(async () => {
    edge = await startEdge(addUsers(async () => {}));
    edge.keys.add('key');
  });
  afterAll(() => edge.stop());

  it.each([ServerReflectionClient, AlphaClient])('lists services and files', async (Client) => {
    const [services, byName, bySymbol, byMethod, byField] = await queryReflection(
      edge,
      [
        { $case: 'listServices', value: '' },
        { $case: 'fileByFilename', value: 'userprofile/user_profile_service.proto' },
        { $case: 'fileContainingSymbol', value: USERS },
        { $case: 'fileContainingSymbol', value: `${USERS}.GetPersonalUser` },
        { $case: 'fileContainingSymbol', value: 'userprofile.User.email' },
      ],
      Client,
    );
    expect(services).toEqual({
      $case: 'listServicesResponse',
      value: {
        service: [
          'grpc.health.v1.Health',
          'grpc.reflection.v1.ServerReflection',
          'grpc.reflection.v1alpha.ServerReflection',
          USERS,
        ].map((name) => ({ name })),
      },
    });
    expect(listNames(byName)).toEqual(
      expect.arrayContaining([
        'userprofile/user_profile_service.proto',
        'google/api/annotations.proto',
        'google/protobuf/timestamp.proto',
        'google/protobuf/descriptor.proto',
      ]),
    );
    expect(listNames(byName)[0]).toBe('userprofile/user_profile_service.proto');
    for (const answer of [bySymbol, byMethod, byField]) expect(answer).toEqual(byName);
  });

  it('serves the comments of the protos and the types of error details', async () => {
    const types = ['ErrorInfo', 'BadRequest', 'RetryInfo', 'RequestInfo'];
    const [users, ...details] = await queryReflection(
      edge,
      [USERS, ...types.map((name) => `google.rpc.${name}`)].map((value) => ({ $case: 'fileContainingSymbol', value })),
    );
    const comments = listFiles(users)[0]?.sourceCodeInfo?.location.map(({ leadingComments }) => leadingComments) ?? [];
    expect(comments).toContainEqual(expect.stringContaining('Returns the owner of the calling key'));
    for (const answer of details)
      expect(listNames(answer)).toEqual(['google/rpc/error_details.proto', 'google/protobuf/duration.proto']);
  });

  it('resolves extensions and reports unknown symbols', async () => {
    const [file, numbers, noFile, noSymbol, noType] = await queryReflection(edge, [
      {
        $case: 'fileContainingExtension',
        value: { containingType: 'google.protobuf.MethodOptions', extensionNumber: 50_001 },
      },
      { $case: 'allExtensionNumbersOfType', value: 'google.protobuf.MethodOptions' },
      { $case: 'fileByFilename', value: 'nope.proto' },
      { $case: 'fileContainingSymbol', value: `${USERS}.Nope` },
      { $case: 'allExtensionNumbersOfType', value: 'nope.Nope' },
    ]);
    expect(listNames(file)[0]).toBe('plantroom/v1/options.proto');
    expect(numbers).toMatchObject({ value: { extensionNumber: expect.arrayContaining([50_001, 50_002]) } });
    for (const answer of [noFile, noSymbol, noType])
      expect(answer).toMatchObject({ $case: 'errorResponse', value: { errorCode: status.NOT_FOUND } });
  });

  it('requires a key and is unavailable when disabled', async () => {
    const anonymous = edge.client(ServerReflectionClient).serverReflectionInfo();
    expect(
      await new Promise((resolve) => anonymous.on('error', (error: ServiceError) => resolve(parseError(error)))),
    ).toMatchObject({ reason: 'api_key_missing' });
    const without = await startEdge(
      addUsers(async () => {}),
      { reflection: false },
    );
    without.keys.add('key');
    await expect(queryReflection(without, [{ $case: 'listServices', value: '' }])).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
    });
    await without.stop();
  });
});

describe('health and stop', () => {
  let edge: TestEdge;
  let answering: () => Promise<void>;
  beforeEach(async () => {
    answering = async () => {};
    edge = await startEdge(addUsers(() => answering()));
    edge.keys.add('key');
  });
  afterEach(() => edge.stop());

  it('answers without a key', async () => {
    const health = edge.client(HealthClient);
    const check = health.check.bind(health);
    for (const service of ['', USERS]) expect(await call(check, { service }, {})).toEqual({ status: Serving.SERVING });
    expect(await callFails(check, { service: 'nope' }, {})).toMatchObject({
      code: status.NOT_FOUND,
      reason: 'service_not_found',
    });
    const unknown = health.watch({ service: 'nope' });
    expect(await new Promise((resolve) => unknown.once('data', resolve))).toEqual({ status: Serving.SERVICE_UNKNOWN });
    unknown.on('error', () => {});
    unknown.cancel();
  });

  it('shuts down gracefully: reports it, rejects new calls, finishes unary calls, ends streams', async () => {
    const health = edge.client(HealthClient);
    const users = edge.client(UserProfileServiceClient);
    const watched: Serving[] = [];
    const watch = health.watch({ service: '' });
    const serving = new Promise<void>((resolve) =>
      watch.on('data', (one: HealthCheckResponse) => (watched.push(one.status), resolve())),
    );
    const watchEnd = new Promise<ServiceError>((resolve) => watch.on('error', resolve));
    await serving;
    const gate = Promise.withResolvers<void>();
    const entered = new Promise<void>((resolve) => (answering = async () => (resolve(), await gate.promise)));
    const running = call(users.getPersonalUser.bind(users), { organizationId: '' }, FIELDS);
    await entered;
    const stopped = edge.server.stop(20_000, [edge.transport]);
    expect(parseError(await watchEnd)).toMatchObject({ code: status.UNAVAILABLE, reason: 'shutting_down' });
    expect(watched).toEqual([Serving.SERVING, Serving.NOT_SERVING]);
    expect(await callFails(users.getPersonalUser.bind(users), { organizationId: '' }, FIELDS)).toMatchObject({
      code: status.UNAVAILABLE,
      reason: 'shutting_down',
    });
    expect(await call(health.check.bind(health), { service: '' }, {})).toEqual({ status: Serving.NOT_SERVING });
    gate.resolve();
    await expect(running).resolves.toMatchObject({ id: 'u' });
    await stopped;
  });

  it('cuts the remaining calls at the hard limit', async () => {
    const users = edge.client(UserProfileServiceClient);
    const entered = new Promise<void>((resolve) => (answering = async () => (resolve(), await new Promise(() => {}))));
    const running = callFails(users.getPersonalUser.bind(users), { organizationId: '' }, FIELDS);
    await entered;
    await edge.server.stop(10, [edge.transport]);
    expect(await running).toMatchObject({ code: status.UNAVAILABLE, reason: 'shutting_down' });
  });
});
