import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import {
  createPlantroomClient,
  watchExecution,
  isFinal,
  streamReadings,
  watchConnectionStatus,
  watchExecutions,
  type PlantroomClient,
} from '../../src/client';
import { SERVICES } from '../../src/client/createPlantroomClient';
import { Execution } from '../../src/client/gen/actuator_command/v2/actuator_command_service';
import { AttachResponse } from '../../src/client/gen/gateway/v1/gateway_service';
import { readAsset } from '../../src/kernel/assets';
import type { MethodDescriptor } from '../../src/api/descriptors/descriptors';
import { FakeServices } from '../client/fakeServices';
import { descriptors } from '../support/testApp';
import { NEW_VALUE, NewerProtos } from './newerProtos';

type Method = (request: unknown) => Promise<unknown> & AsyncIterableIterator<unknown>;

const newer = new NewerProtos(readAsset('image.binpb'));
/** Decodes and encodes a message again, without the fields that a current reader does not know. */
const decodeKnown = ({ response }: MethodDescriptor, bytes: Uint8Array): Buffer =>
  Buffer.from(toBinary(response, fromBinary(response, bytes, { readUnknownFields: false })));
const called = Object.values(SERVICES).map(({ fullName }) => fullName as string);
const methods = [...descriptors.methods.values()].filter(
  ({ service }) => called.includes(service) && service !== 'grpc.health.v1.Health',
);

describe('servers of a newer proto', () => {
  let fake: FakeServices;
  let client: PlantroomClient;
  let answer: Buffer;
  beforeAll(async () => {
    fake = new FakeServices();
    fake.answer = () => answer;
    fake.stream = (call) => {
      call.write(answer);
      call.end();
    };
    await fake.start();
    client = createPlantroomClient({
      address: fake.address,
      apiKey: 'plr_key',
      organizationId: 'org-1',
      insecure: true,
      retry: { attempts: 1 },
    });
  });
  afterAll(() => {
    client.close();
    fake.stop();
  });

  const call = async ({ path, service, kind }: MethodDescriptor, bytes: Uint8Array): Promise<unknown> => {
    answer = Buffer.from(bytes);
    const fixture = Object.entries(SERVICES).find(
      ([, { fullName }]) => fullName === service,
    )?.[0] as keyof typeof SERVICES;
    const name = path.split('/').at(-1) ?? '';
    const method = (client[fixture] as unknown as Readonly<Record<string, Method>>)[
      name[0]?.toLowerCase() + name.slice(1)
    ] as Method;
    if (kind === 'server_streaming') return (await method({}).next()).value;
    return await method(kind === 'client_streaming' ? [] : {});
  };

  it.each(['first', 'new'] as const)(
    'can be read by current clients, which ignore unknown fields: every method, every field set, the %s case of oneofs',
    async (cases) => {
      expect(methods.length).toBeGreaterThan(70);
      for (const descriptor of methods) {
        const full = newer.full(descriptor.response.typeName, cases);
        const read = await call(descriptor, full);
        expect([descriptor.path, read]).toEqual([
          descriptor.path,
          await call(descriptor, decodeKnown(descriptor, full)),
        ]);
      }
    },
  );

  it('send an unknown state, which stays a number and is final if the execution has a finish time', () => {
    const later = Execution.decode(newer.full('actuator_command.v2.Execution', 'first'));
    expect([later.state, later.finishedAt, isFinal(later)]).toEqual([NEW_VALUE, expect.any(Date), true]);
    expect(isFinal({ ...later, finishedAt: undefined })).toBe(false);
  });

  it('send an unknown final state, and clients follow the execution to its end', async () => {
    fake.answer = ({ path }) =>
      path.endsWith('/GetExecution')
        ? Buffer.from(newer.full('actuator_command.v2.Execution', 'first'))
        : Buffer.alloc(0);
    answer = Buffer.from(newer.full('actuator_command.v2.WatchExecutionsResponse', 'first'));
    const states: number[] = [];
    for await (const { state } of watchExecution(client, 'text')) states.push(state);
    expect(states).toEqual([NEW_VALUE]);
    fake.answer = () => answer;
  });

  it('send unknown messages, and streams continue after them', async () => {
    answer = Buffer.from(newer.full('actuator_command.v2.WatchExecutionsResponse', 'new'));
    expect((await watchExecutions(client).next()).value).toMatchObject({
      execution: { state: NEW_VALUE },
      resumeToken: 'text',
    });
    answer = Buffer.from(newer.full('sensorquery.v1.StreamReadingsResponse', 'new'));
    expect((await streamReadings(client).next()).value).toMatchObject({
      readings: [{ sensorId: 'text', value: undefined }],
    });
    answer = Buffer.from(
      newer.bytes('connection.WatchConnectionStatusResponse', {
        connectionId: 'connection-1',
        status: { state: NEW_VALUE },
      }),
    );
    expect((await watchConnectionStatus(client).next()).value).toMatchObject({
      connectionId: 'connection-1',
      status: { state: NEW_VALUE },
    });
  });

  it('send an unknown error reason, and clients include it in the error', async () => {
    fake.answer = () => ({ code: status.FAILED_PRECONDITION, details: 'of a later day' });
    await expect(client.devices.listDigitalDevices({})).rejects.toMatchObject({
      status: 'FAILED_PRECONDITION',
      reason: '',
      message: 'of a later day',
    });
    fake.answer = () => answer;
  });

  it('send a message of an unknown kind to a gateway, which ignores it and reads the known ones', () => {
    expect(AttachResponse.decode(newer.full('gateway.v1.AttachResponse', 'new')).message).toBeUndefined();
    const cancelMessage = newer.bytes('gateway.v1.AttachResponse', {
      message: { case: 'cancelCommand', value: { executionId: 'execution-1' } },
    });
    expect(AttachResponse.decode(cancelMessage).message).toEqual({
      $case: 'cancelCommand',
      value: { executionId: 'execution-1' },
    });
  });
});
