import {
  create,
  createFileRegistry,
  fromBinary,
  toBinary,
  type DescMessage,
  type FileRegistry,
} from '@bufbuild/protobuf';
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { status, type Client } from '@grpc/grpc-js';
import {
  loadFileDescriptorSetFromBuffer,
  type Options,
  type PackageDefinition,
  type ServiceDefinition,
} from '@grpc/proto-loader';
import {
  ServerReflectionClient,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
} from '../../gen/grpc/reflection/v1/reflection';
import { readAsset } from '../../kernel/assets';
import { findNearest } from '../../kernel/findNearest';
import { UsageError } from '../exit';
import { getMetadata, type Target } from './target';

/** Options of proto-loader for the message objects that jsonMapping.ts reads and writes. */
export const LOADER_OPTIONS: Options = { keepCase: true, longs: Number };

/** A method of a server, with everything needed to call it. */
export interface ServerMethod {
  /** The full name, for example `digitaldevice.v2.DigitalDeviceService/GetDigitalDevice`. */
  readonly name: string;
  readonly definition: ServiceDefinition[string];
  readonly input: DescMessage;
  readonly output: DescMessage;
}

/** Reads the methods of a server by reflection; uses those of this program if reflection is disabled. */
export async function readServerMethods(target: Target): Promise<ServerMethod[]> {
  try {
    return listMethods(await readReflectedFiles(target));
  } catch (error) {
    if ((error as { code?: unknown }).code !== status.UNIMPLEMENTED) throw error;
    return getOwnMethods();
  }
}

let ownMethods: ServerMethod[] | undefined;

/** Returns the methods of the protos of this program. */
export function getOwnMethods(): ServerMethod[] {
  ownMethods ??= listMethods(fromBinary(FileDescriptorSetSchema, readAsset('image.binpb')).file);
  return ownMethods;
}

/**
 * Finds a method by `package.Service/Method`, `Service/Method`, `Service.Method` or `Method`. A short form must match
 * exactly one method. Throws UsageError otherwise.
 */
export function getMethod(methods: readonly ServerMethod[], name: string): ServerMethod {
  const wanted = name.replace(/^\//, '').replace(/\.(\w+)$/, '/$1'); // Service.Method becomes Service/Method
  const exact = methods.filter((method) => method.name === wanted);
  const matches =
    exact.length > 0
      ? exact
      : methods.filter((method) => method.name.endsWith(`.${wanted}`) || method.name.endsWith(`/${wanted}`));
  if (matches.length === 1) return matches[0] as ServerMethod;
  if (matches.length > 1)
    throw new UsageError(
      `${name} is ambiguous (${matches.map((method) => method.name).join(' or ')}): use the full name`,
    );
  const names = methods.flatMap((method) => [
    method.name,
    method.name.slice(method.name.lastIndexOf('.') + 1),
    method.name.slice(method.name.lastIndexOf('/') + 1),
  ]);
  const nearest = findNearest(wanted, names);
  throw new UsageError(
    `unknown method ${name}: ${nearest === undefined ? 'run "plantroom call --list" to list all methods' : `did you mean ${nearest}?`}`,
  );
}

/**
 * Lists the methods of the services in these files, with what grpc-js needs to call them (`definition`, created by
 * proto-loader) and the types of their messages (`input` and `output`, created by protobuf-es).
 */
function listMethods(files: readonly FileDescriptorProto[]): ServerMethod[] {
  const set = create(FileDescriptorSetSchema, { file: [...files] });
  const registry: FileRegistry = createFileRegistry(set);
  const definitions: PackageDefinition = loadFileDescriptorSetFromBuffer(
    Buffer.from(toBinary(FileDescriptorSetSchema, set)),
    LOADER_OPTIONS,
  );
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

/** Reads the proto files of all services of a server, each after its imports. */
async function readReflectedFiles(target: Target): Promise<FileDescriptorProto[]> {
  const client = new ServerReflectionClient(target.address, target.credentials);
  try {
    const sendReflectionRequest = createReflectionCaller(client, target);
    const listed = await sendReflectionRequest({ $case: 'listServices', value: '' });
    const services =
      listed.messageResponse?.$case === 'listServicesResponse' ? listed.messageResponse.value.service : [];
    const files = new Map<string, FileDescriptorProto>();
    const addFiles = (response: ServerReflectionResponse): void => {
      const raw =
        response.messageResponse?.$case === 'fileDescriptorResponse'
          ? response.messageResponse.value.fileDescriptorProto
          : [];
      for (const file of raw.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes))) files.set(file.name, file);
    };
    for (const { name } of services)
      addFiles(await sendReflectionRequest({ $case: 'fileContainingSymbol', value: name }));
    for (let missing = findMissingImport(files); missing !== undefined; missing = findMissingImport(files))
      addFiles(await sendReflectionRequest({ $case: 'fileByFilename', value: missing }));
    return sortImportsFirst(files);
  } finally {
    client.close();
  }
}

/** Returns a file that another file imports and that was not read yet; undefined if there is none. */
function findMissingImport(files: ReadonlyMap<string, FileDescriptorProto>): string | undefined {
  return [...files.values()].flatMap((file) => file.dependency).find((name) => !files.has(name));
}

/** Sorts the files so that each comes after its imports, as createFileRegistry requires. */
function sortImportsFirst(files: ReadonlyMap<string, FileDescriptorProto>): FileDescriptorProto[] {
  const sorted = new Set<FileDescriptorProto>();
  const add = (file: FileDescriptorProto): void => {
    for (const name of file.dependency) add(files.get(name) as FileDescriptorProto);
    sorted.add(file);
  };
  for (const file of files.values()) add(file);
  return [...sorted];
}

const REFLECTION_TIMEOUT_MS = 15_000;

type ReflectionQuery = NonNullable<ServerReflectionRequest['messageRequest']>;

/**
 * Returns a function that sends one reflection request on its own stream. It rejects with the status of a failed call.
 */
function createReflectionCaller(
  client: ServerReflectionClient & Client,
  target: Target,
): (query: ReflectionQuery) => Promise<ServerReflectionResponse> {
  return (messageRequest) =>
    new Promise((resolve, reject) => {
      const call = client.serverReflectionInfo(getMetadata(target), { deadline: Date.now() + REFLECTION_TIMEOUT_MS });
      call.on('data', (response: ServerReflectionResponse) => {
        const { messageResponse } = response;
        if (messageResponse?.$case === 'errorResponse')
          reject(new Error(`server reflection failed: ${messageResponse.value.errorMessage}`));
        else resolve(response);
        call.end();
      });
      call.on('error', reject);
      call.on('end', () => reject(new Error('server reflection ended without a response')));
      call.write({ host: '', messageRequest });
    });
}
