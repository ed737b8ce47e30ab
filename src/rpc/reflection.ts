import { toBinary, type DescFile, type DescMessage, type DescService } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { status } from '@grpc/grpc-js';
import type { ExtensionRequest, ServerReflectionRequest, ServerReflectionResponse, ServerReflectionServer } from '../gen/grpc/reflection/v1/reflection';
import type { Descriptors } from './descriptors';
import type { BidiStream, HandlersOf } from './handlers';

type Question = NonNullable<ServerReflectionRequest['messageRequest']>;
type Answer = NonNullable<ServerReflectionResponse['messageResponse']>;

/** Tells clients the protos of the server: grpc.reflection.v1, and v1alpha, whose messages are the same. */
export class Reflection {
  constructor(
    private readonly descriptors: Descriptors,
    private readonly services: ReadonlySet<string>,
  ) {}

  /** The handlers of grpc.reflection.v1.ServerReflection and of v1alpha. */
  handlers(): HandlersOf<ServerReflectionServer> {
    return { serverReflectionInfo: (stream) => this.converse(stream) };
  }

  private async converse(stream: BidiStream<ServerReflectionRequest, ServerReflectionResponse>): Promise<void> {
    for await (const request of stream.requests) {
      const messageResponse = request.messageRequest ? this.answer(request.messageRequest) : missing('the request holds no question');
      await stream.send({ validHost: request.host, originalRequest: request, messageResponse });
    }
  }

  private answer(question: Question): Answer {
    switch (question.$case) {
      case 'listServices':
        return { $case: 'listServicesResponse', value: { service: [...this.services].toSorted().map((name) => ({ name })) } };
      case 'fileByFilename':
        return this.withFile(this.descriptors.registry.getFile(question.value), `file ${question.value}`);
      case 'fileContainingSymbol':
        return this.withFile(this.fileOf(question.value), `symbol ${question.value}`);
      case 'fileContainingExtension':
        return this.extension(question.value);
      case 'allExtensionNumbersOfType':
      default:
        return this.extensionNumbers(question.value);
    }
  }

  private extension({ containingType, extensionNumber }: ExtensionRequest): Answer {
    const found = this.extensionsOf(containingType).find((one) => one.number === extensionNumber);
    return this.withFile(found?.file, `extension ${extensionNumber} of ${containingType}`);
  }

  private extensionNumbers(typeName: string): Answer {
    if (!this.descriptors.registry.getMessage(typeName)) return missing(`there is no message ${typeName}`);
    return { $case: 'allExtensionNumbersResponse', value: { baseTypeName: typeName, extensionNumber: this.extensionsOf(typeName).map((one) => one.number) } };
  }

  private withFile(file: DescFile | undefined, what: string): Answer {
    if (!file) return missing(`there is no ${what}`);
    const fileDescriptorProto = withDependencies(file).map((one) => Buffer.from(toBinary(FileDescriptorProtoSchema, one.proto)));
    return { $case: 'fileDescriptorResponse', value: { fileDescriptorProto } };
  }

  private fileOf(symbol: string): DescFile | undefined {
    const { registry } = this.descriptors;
    const found = registry.get(symbol);
    if (found) return found.file;
    const dot = symbol.lastIndexOf('.');
    const parent = registry.get(symbol.slice(0, Math.max(dot, 0)));
    if (parent?.kind !== 'service' && parent?.kind !== 'message') return undefined;
    return hasMember(parent, symbol.slice(dot + 1)) ? parent.file : undefined;
  }

  private extensionsOf(typeName: string): { readonly number: number; readonly file: DescFile }[] {
    return [...this.descriptors.registry].filter((type) => type.kind === 'extension').filter((extension) => extension.extendee.typeName === typeName);
  }
}

function hasMember(parent: DescService | DescMessage, name: string): boolean {
  return parent.kind === 'service' ? parent.methods.some((method) => method.name === name) : parent.members.some((member) => member.name === name);
}

/** The file and all that it imports, each once, the file first. */
function withDependencies(file: DescFile): DescFile[] {
  const all = new Set([file]);
  for (const one of all) for (const dependency of one.dependencies) all.add(dependency);
  return [...all];
}

function missing(errorMessage: string): Answer {
  return { $case: 'errorResponse', value: { errorCode: status.NOT_FOUND, errorMessage } };
}
