import type { DescEnum, DescEnumValue, DescField, DescMessage, DescMethod, DescService } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { STATUS_BY_KIND } from '../../src/api/errors/errorTable';
import type { Descriptors } from '../../src/api/descriptors/descriptors';

type Described = DescEnum | DescEnumValue | DescField | DescMessage | DescMethod | DescService;

// Field numbers of google.protobuf.FileDescriptorProto and its messages, which form the paths in source info.
const IN_FILE = { message: 4, enum: 5, service: 6 } as const;
const IN_PARENT = { field: 2, nestedMessage: 3, nestedEnum: 4, enum_value: 2, rpc: 2 } as const;

// Matches `GetDevice` but not `Attach`, which is also an ordinary word.
const CAMEL_CASE = /[a-z][A-Z]/;

/** The comments of the protos, with the names of fields, methods and statuses replaced by those of JSON over HTTP. */
export class Comments {
  /** The comments, by the file and the path of the declaration in it: `file.proto:4.0.2.1`. */
  private readonly textByPath = new Map<string, string>();
  private readonly replacementByName = new Map<string, string>();

  /** Throws if the descriptor image was built without comments. */
  constructor(descriptors: Descriptors) {
    for (const { proto, messages, services } of descriptors.registry.files) {
      for (const { path, leadingComments } of proto.sourceCodeInfo?.location ?? [])
        this.textByPath.set(`${proto.name}:${path.join('.')}`, leadingComments);
      for (const { name, jsonName } of messages.flatMap(({ fields }) => fields))
        this.replacementByName.set(name, jsonName);
      for (const { name, localName } of services.flatMap(({ methods }) => methods))
        if (CAMEL_CASE.test(name)) this.replacementByName.set(name, localName);
    }
    if (![...this.textByPath.values()].some((text) => text !== ''))
      throw new Error('the descriptor image has no comments: build it with source info');
    // Reversed, because the first entry of a gRPC name has its usual HTTP status; later ones exist only in HTTP.
    for (const { grpc, http } of Object.values(STATUS_BY_KIND).toReversed())
      this.replacementByName.set(status[grpc], String(http));
  }

  /** Returns the comment of a declaration as one line, in the names of JSON over HTTP; empty if it has none. */
  getText(declaration: Described): string {
    const text = this.textByPath.get(`${getFile(declaration)}:${getPath(declaration).join('.')}`) ?? '';
    const lines = text.split('\n').map((line) => line.trim());
    return this.replaceNames(lines.join(' ').trim());
  }

  /** Replaces gRPC names by those of JSON over HTTP. Text in backticks is a value, and stays unchanged. */
  private replaceNames(text: string): string {
    return text
      .replaceAll('the metadata `x-organization-id`', 'the header `X-Organization-Id`')
      .replaceAll(/`[^`]*`|[A-Za-z]+(?:_[A-Za-z0-9]+)*/g, (word) => this.replacementByName.get(word) ?? word);
  }
}

/** Returns the name of the proto file that contains the declaration. */
function getFile(declaration: Described): string {
  return ('file' in declaration ? declaration.file : declaration.parent.file).proto.name;
}

/**
 * Returns the path of the declaration in its file, as the source info of a descriptor contains it: the number of a
 * field of FileDescriptorProto and an index in that list, in turn. For example `[4, 0, 2, 1]`: the second field (2, 1)
 * of the first message (4, 0).
 */
function getPath(declaration: Described): number[] {
  switch (declaration.kind) {
    case 'message':
      return declaration.parent
        ? [
            ...getPath(declaration.parent),
            IN_PARENT.nestedMessage,
            declaration.parent.proto.nestedType.indexOf(declaration.proto),
          ]
        : [IN_FILE.message, declaration.file.proto.messageType.indexOf(declaration.proto)];
    case 'enum':
      return declaration.parent
        ? [
            ...getPath(declaration.parent),
            IN_PARENT.nestedEnum,
            declaration.parent.proto.enumType.indexOf(declaration.proto),
          ]
        : [IN_FILE.enum, declaration.file.proto.enumType.indexOf(declaration.proto)];
    case 'service':
      return [IN_FILE.service, declaration.file.proto.service.indexOf(declaration.proto)];
    case 'field':
    case 'enum_value':
    case 'rpc':
      break;
  }
  return [...getPath(declaration.parent), IN_PARENT[declaration.kind], getIndex(declaration)];
}

/** Returns the index of a field, enum value or method in its parent. */
function getIndex(declaration: DescField | DescEnumValue | DescMethod): number {
  if (declaration.kind === 'field') return declaration.parent.proto.field.indexOf(declaration.proto);
  return declaration.kind === 'rpc'
    ? declaration.parent.proto.method.indexOf(declaration.proto)
    : declaration.parent.proto.value.indexOf(declaration.proto);
}
