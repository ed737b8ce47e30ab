import { create, createFileRegistry, fromBinary, toBinary, type DescMessage, type FileRegistry } from '@bufbuild/protobuf';
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { status, type Client } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer, type Options, type PackageDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import { ServerReflectionClient, type ServerReflectionRequest, type ServerReflectionResponse } from '../../gen/grpc/reflection/v1/reflection';
import { asset } from '../../kernel/assets';
import { nearest } from '../../kernel/nearest';
import { UsageError } from '../exit';
import { metadataOf, type Target } from './target';

/** How messages look as objects: what jsonMapping.ts reads and writes. */
export const LOADER_OPTIONS: Options = { keepCase: true, longs: Number };

/** A method of a server with what is needed to call it. */
export interface ServerMethod {
  /** `digitaldevice.v2.DigitalDeviceService/GetDigitalDevice`. */
  readonly name: string;
  readonly definition: ServiceDefinition[string];
  readonly input: DescMessage;
  readonly output: DescMessage;
}

/** Learns the methods of a server by reflection; those of this program when the server has reflection switched off. */
export async function serverMethods(target: Target): Promise<ServerMethod[]> {
  try {
    return methodsOf(await reflectedFiles(target));
  } catch (error) {
    if ((error as { code?: unknown }).code !== status.UNIMPLEMENTED) throw error;
    return methodsOf(fromBinary(FileDescriptorSetSchema, asset('image.binpb')).file);
  }
}

/** The method of a name: `package.Service/Method`, `Service/Method`, `Service.Method` or only `Method` where that is unique. */
export function getMethod(methods: readonly ServerMethod[], name: string): ServerMethod {
  const wanted = name.replace(/^\//, '').replace(/\.(\w+)$/, '/$1');
  const exact = methods.filter((m) => m.name === wanted);
  const fitting = exact.length > 0 ? exact : methods.filter((m) => m.name.endsWith(`.${wanted}`) || m.name.endsWith(`/${wanted}`) || m.name.endsWith(`/${name}`));
  if (fitting.length === 1) return fitting[0] as ServerMethod;
  if (fitting.length > 1) throw new UsageError(`${name} could be ${fitting.map((m) => m.name).join(' or ')}; give the full name`);
  const names = methods.flatMap((m) => [m.name, m.name.slice(m.name.lastIndexOf('.') + 1), m.name.slice(m.name.lastIndexOf('/') + 1)]);
  const near = nearest(wanted, names);
  throw new UsageError(`the server has no method ${name}; ${near === undefined ? '"plantroom call --list" shows those that it has' : `did you mean ${near}?`}`);
}

function methodsOf(files: readonly FileDescriptorProto[]): ServerMethod[] {
  const set = create(FileDescriptorSetSchema, { file: [...files] });
  const registry: FileRegistry = createFileRegistry(set);
  const definitions: PackageDefinition = loadFileDescriptorSetFromBuffer(Buffer.from(toBinary(FileDescriptorSetSchema, set)), LOADER_OPTIONS);
  const services = [...registry].filter((type) => type.kind === 'service');
  return services.flatMap((service) =>
    service.methods.map((method) => ({
      name: `${service.typeName}/${method.name}`,
      definition: (definitions[service.typeName] as ServiceDefinition)[method.name] as ServiceDefinition[string],
      input: method.input,
      output: method.output,
    })),
  );
}

/** Every file behind the services of a server, each after those that it imports. */
async function reflectedFiles(target: Target): Promise<FileDescriptorProto[]> {
  const client = new ServerReflectionClient(target.address, target.credentials);
  try {
    const ask = asker(client, target);
    const listed = await ask({ $case: 'listServices', value: '' });
    const services = listed.messageResponse?.$case === 'listServicesResponse' ? listed.messageResponse.value.service : [];
    const files = new Map<string, FileDescriptorProto>();
    const keep = (response: ServerReflectionResponse): void => {
      const raw = response.messageResponse?.$case === 'fileDescriptorResponse' ? response.messageResponse.value.fileDescriptorProto : [];
      for (const file of raw.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes))) files.set(file.name, file);
    };
    for (const { name } of services) keep(await ask({ $case: 'fileContainingSymbol', value: name }));
    for (let missing = missingOf(files); missing !== undefined; missing = missingOf(files)) keep(await ask({ $case: 'fileByFilename', value: missing }));
    return importsFirst(files);
  } finally {
    client.close();
  }
}

function missingOf(files: ReadonlyMap<string, FileDescriptorProto>): string | undefined {
  return [...files.values()].flatMap((file) => file.dependency).find((name) => !files.has(name));
}

function importsFirst(files: ReadonlyMap<string, FileDescriptorProto>): FileDescriptorProto[] {
  const sorted = new Set<FileDescriptorProto>();
  const add = (file: FileDescriptorProto): void => {
    for (const name of file.dependency) add(files.get(name) as FileDescriptorProto);
    sorted.add(file);
  };
  for (const file of files.values()) add(file);
  return [...sorted];
}

type Question = NonNullable<ServerReflectionRequest['messageRequest']>;

/** One question, one answer, on a stream of its own: simple, and rejected with the status of the call. */
function asker(client: ServerReflectionClient & Client, target: Target): (question: Question) => Promise<ServerReflectionResponse> {
  return (messageRequest) =>
    new Promise((resolve, reject) => {
      const call = client.serverReflectionInfo(metadataOf(target), { deadline: Date.now() + 15_000 });
      call.on('data', (response: ServerReflectionResponse) => {
        const { messageResponse } = response;
        if (messageResponse?.$case === 'errorResponse') reject(new Error(`the server's reflection says: ${messageResponse.value.errorMessage}`));
        else resolve(response);
        call.end();
      });
      call.on('error', reject);
      call.on('end', () => reject(new Error("the server's reflection ended without an answer")));
      call.write({ host: '', messageRequest });
    });
}
