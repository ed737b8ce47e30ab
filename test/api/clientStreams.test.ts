import { clone, fromBinary, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema, MethodDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Client, status, type ClientWritableStream, type ServiceError } from '@grpc/grpc-js';
import { readAsset } from '../../src/kernel/assets';
import { DomainError } from '../../src/kernel/errors';
import { Descriptors } from '../../src/api/descriptors/descriptors';
import type { ClientStreamHandler } from '../../src/api/pipeline/handlers';
import {
  type AttachRequest,
  type AttachResponse,
  GatewayServiceService,
} from '../../src/gen/gateway/v1/gateway_service';
import { headers, parseError, startEdge, type GrpcErrorInfo, type TestEdge } from '../support/edge';

const FIELDS = { 'x-api-key': 'key', 'x-organization-id': 'org-1' };
const PATH = '/gateway.v1.GatewayService/Collect';
const { requestSerialize, requestDeserialize, responseSerialize, responseDeserialize } = GatewayServiceService.attach;
const COLLECT = {
  collect: {
    path: PATH,
    requestStream: true,
    responseStream: false,
    requestSerialize,
    requestDeserialize,
    responseSerialize,
    responseDeserialize,
  },
} as const;

/**
 * The protos with an additional method that uses the messages of Attach. None of the Plantroom services has client
 * streaming.
 */
function withCollect(): Descriptors {
  const image = fromBinary(FileDescriptorSetSchema, readAsset('image.binpb'));
  const methods = image.file.find((file) => file.package === 'gateway.v1')?.service[0]?.method ?? [];
  for (const attach of methods.filter(({ name }) => name === 'Attach'))
    methods.push({ ...clone(MethodDescriptorProtoSchema, attach), name: 'Collect', serverStreaming: false });
  return new Descriptors(toBinary(FileDescriptorSetSchema, image));
}

const uplink = (uplinkId: string): AttachRequest => ({
  message: {
    $case: 'uplink',
    value: { uplinkId, clientDeviceId: 'd', time: undefined, payload: undefined, fPort: undefined },
  },
});
const received = (executionId: string): AttachRequest => ({
  message: { $case: 'commandReceived', value: { executionId, time: undefined } },
});
const ack = (uplinkId: string): AttachResponse => ({
  message: { $case: 'uplinkAck', value: { uplinkId, outcome: 1, reason: '' } },
});

describe('a client stream', () => {
  let edge: TestEdge;
  let client: Client;
  let collecting: ClientStreamHandler<AttachRequest, AttachResponse>;

  beforeAll(async () => {
    edge = await startEdge(
      (server) => server.addService(COLLECT, { collect: (requests, context) => collecting(requests, context) }),
      { descriptors: withCollect() },
    );
    edge.keys.add('key');
    client = edge.client(Client);
  });
  beforeEach(() => {
    collecting = async (requests) => {
      const ids: string[] = [];
      for await (const { message } of requests) if (message?.$case === 'uplink') ids.push(message.value.uplinkId);
      return ack(ids.join());
    };
  });
  afterAll(() => edge.stop());

  function collect(fields: Record<string, string> = FIELDS): {
    stream: ClientWritableStream<AttachRequest>;
    answer: Promise<AttachResponse | GrpcErrorInfo>;
  } {
    let answered: (answer: AttachResponse | GrpcErrorInfo) => void;
    const answer = new Promise<AttachResponse | GrpcErrorInfo>((resolve) => (answered = resolve));
    const stream = client.makeClientStreamRequest(
      PATH,
      requestSerialize,
      responseDeserialize,
      headers(fields),
      (error: ServiceError | null, response) => answered(error ? parseError(error) : (response as AttachResponse)),
    );
    return { stream, answer };
  }

  it('is read to its end and answered once', async () => {
    const { stream, answer } = collect();
    for (const id of ['1', '2', '3']) stream.write(uplink(id));
    stream.end();
    expect(await answer).toEqual(ack('1,2,3'));
  });

  it('may be empty and may be answered before its end', async () => {
    const empty = collect();
    empty.stream.end();
    expect(await empty.answer).toEqual(ack(''));
    collecting = async () => ack('enough');
    expect(await collect().answer).toEqual(ack('enough'));
  });

  it('ends with the status of an error that the handler throws', async () => {
    collecting = () => Promise.reject(new DomainError('conflict', 'full', 'there is no room; try later'));
    expect(await collect().answer).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'full' });
  });

  it('ends with INVALID_ARGUMENT when a message breaks its rules', async () => {
    const { stream, answer } = collect();
    stream.write(received(''));
    expect(await answer).toMatchObject({ code: status.INVALID_ARGUMENT, fields: ['commandReceived.executionId'] });
  });

  it('is rejected without a key or an organization in the headers', async () => {
    expect(await collect({}).answer).toMatchObject({ reason: 'api_key_missing' });
    expect(await collect({ 'x-api-key': 'key' }).answer).toMatchObject({ reason: 'organization_required' });
  });

  it('notifies the handler when the caller disconnects', async () => {
    const outcome = new Promise<unknown>((resolve) => {
      collecting = async (requests) => {
        try {
          for await (const _ of requests) stream.cancel();
        } catch (error) {
          resolve((error as DomainError).reason);
        }
        return ack('late');
      };
    });
    const { stream } = collect();
    stream.write(uplink('1'));
    expect(await outcome).toBe('cancelled');
  });
});
