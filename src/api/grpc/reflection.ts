import type { DescFile, DescMessage, DescService } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import type {
  ExtensionRequest,
  ServerReflectionRequest,
  ServerReflectionResponse,
  ServerReflectionServer,
} from '../../gen/grpc/reflection/v1/reflection';
import type { Descriptors } from '../descriptors/descriptors';
import type { BidiStream, HandlersOf } from '../pipeline/handlers';
import { readProtoFiles } from '../descriptors/protoFiles';

type Query = NonNullable<ServerReflectionRequest['messageRequest']>;
type QueryResult = NonNullable<ServerReflectionResponse['messageResponse']>;

/**
 * gRPC server reflection (grpc.reflection.v1, and v1alpha with the same messages): returns the protos of the server
 * with their comments, and those of the error details. `loadFiles` returns the descriptor set with comments; it is
 * called when a client requests the first file.
 */
export class Reflection {
  /** The serialized files by name; undefined until the first file is requested. */
  private fileByName: ReadonlyMap<string, Buffer> | undefined;

  constructor(
    private readonly descriptors: Descriptors,
    private readonly services: ReadonlySet<string>,
    private readonly loadFiles: () => Uint8Array,
  ) {}

  /** Returns the handlers for grpc.reflection.v1.ServerReflection and v1alpha. */
  handlers(): HandlersOf<ServerReflectionServer> {
    return { serverReflectionInfo: (stream) => this.handleStream(stream) };
  }

  /** Responds to each query of the client. */
  private async handleStream(stream: BidiStream<ServerReflectionRequest, ServerReflectionResponse>): Promise<void> {
    for await (const request of stream.requests) {
      const messageResponse = request.messageRequest
        ? this.handleQuery(request.messageRequest)
        : createNotFoundResult('the request is empty: set one field of message_request');
      await stream.send({ validHost: request.host, originalRequest: request, messageResponse });
    }
  }

  /** Returns the result of one query. */
  private handleQuery(query: Query): QueryResult {
    switch (query.$case) {
      case 'listServices':
        return {
          $case: 'listServicesResponse',
          value: { service: [...this.services].toSorted().map((name) => ({ name })) },
        };
      case 'fileByFilename':
        return this.createFileResult(this.descriptors.registry.getFile(query.value), `file ${query.value}`);
      case 'fileContainingSymbol':
        return this.createFileResult(this.findFile(query.value), `symbol ${query.value}`);
      case 'fileContainingExtension':
        return this.findExtensionFile(query.value);
      case 'allExtensionNumbersOfType':
      default:
        return this.listExtensionNumbers(query.value);
    }
  }

  /** Returns the file that declares an extension. */
  private findExtensionFile({ containingType, extensionNumber }: ExtensionRequest): QueryResult {
    const found = this.listExtensions(containingType).find((candidate) => candidate.number === extensionNumber);
    return this.createFileResult(found?.file, `extension ${extensionNumber} of ${containingType}`);
  }

  /** Lists the field numbers of the extensions of a message type. */
  private listExtensionNumbers(typeName: string): QueryResult {
    if (!this.descriptors.registry.getMessage(typeName)) return createNotFoundResult(`message ${typeName} not found`);
    return {
      $case: 'allExtensionNumbersResponse',
      value: {
        baseTypeName: typeName,
        extensionNumber: this.listExtensions(typeName).map((extension) => extension.number),
      },
    };
  }

  /** Returns a file and its imports, or "not found". `description` names the queried element in that error. */
  private createFileResult(file: DescFile | undefined, description: string): QueryResult {
    if (!file) return createNotFoundResult(`${description} not found`);
    const fileByName = (this.fileByName ??= readProtoFiles(this.loadFiles()));
    const fileDescriptorProto = listWithDependencies(file).flatMap(({ proto }) => fileByName.get(proto.name) ?? []);
    return { $case: 'fileDescriptorResponse', value: { fileDescriptorProto } };
  }

  /** Finds the file that declares a symbol: a type, or a member of a type such as `package.Service.Method`. */
  private findFile(symbol: string): DescFile | undefined {
    const { registry } = this.descriptors;
    const found = registry.get(symbol);
    if (found) return found.file;
    const dot = symbol.lastIndexOf('.');
    const parent = registry.get(symbol.slice(0, Math.max(dot, 0)));
    if (parent?.kind !== 'service' && parent?.kind !== 'message') return undefined;
    return hasMember(parent, symbol.slice(dot + 1)) ? parent.file : undefined;
  }

  /** Lists the extensions of a message type, each with the file that declares it. */
  private listExtensions(typeName: string): { readonly number: number; readonly file: DescFile }[] {
    return [...this.descriptors.registry]
      .filter((type) => type.kind === 'extension')
      .filter((extension) => extension.extendee.typeName === typeName);
  }
}

/** Whether a service has a method, or a message has a field, of this name. */
function hasMember(parent: DescService | DescMessage, name: string): boolean {
  return parent.kind === 'service'
    ? parent.methods.some((method) => method.name === name)
    : parent.members.some((member) => member.name === name);
}

/** Lists the file and all of its direct and indirect imports, each once, the file first. */
function listWithDependencies(file: DescFile): DescFile[] {
  const files = new Set([file]);
  // The loop also visits the files that are added while it runs.
  for (const current of files) for (const dependency of current.dependencies) files.add(dependency);
  return [...files];
}

function createNotFoundResult(errorMessage: string): QueryResult {
  return { $case: 'errorResponse', value: { errorCode: status.NOT_FOUND, errorMessage } };
}
