import type { DescEnum, DescEnumValue, DescField, DescMessage, DescMethod, DescService } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { STATUS_OF } from '../errorTable';
import type { Descriptors } from '../descriptors';

type Described = DescEnum | DescEnumValue | DescField | DescMessage | DescMethod | DescService;

// The numbers of google.protobuf.FileDescriptorProto and the messages in it, as source info counts them.
const IN_FILE = { message: 4, enum: 5, service: 6 } as const;
const IN_PARENT = { field: 2, nestedMessage: 3, nestedEnum: 4, enum_value: 2, rpc: 2 } as const;

// `GetDevice`, not `Attach`: that is a word of any sentence.
const TWO_WORDS = /[a-z][A-Z]/;

/** The comments of the protos, worded for who reads JSON over HTTP: field, method and status names as they are there. */
export class Comments {
  private readonly texts = new Map<string, string>();
  private readonly words = new Map<string, string>();

  /** Throws when the image was built without comments. */
  constructor(descriptors: Descriptors) {
    for (const { proto, messages, services } of descriptors.registry.files) {
      for (const { path, leadingComments } of proto.sourceCodeInfo?.location ?? []) this.texts.set(`${proto.name}:${path.join('.')}`, leadingComments);
      for (const { name, jsonName } of messages.flatMap(({ fields }) => fields)) this.words.set(name, jsonName);
      for (const { name, localName } of services.flatMap(({ methods }) => methods)) if (TWO_WORDS.test(name)) this.words.set(name, localName);
    }
    if (![...this.texts.values()].some((text) => text !== '')) throw new Error('the descriptor image holds no comments; build it with source info');
    // The first of a name says it; those that HTTP alone has come later.
    for (const { grpc, http } of Object.values(STATUS_OF).toReversed()) this.words.set(status[grpc], String(http));
  }

  /** What the protos say of a thing; empty: nothing. */
  of(thing: Described): string {
    const text = this.texts.get(`${fileOf(thing)}:${pathOf(thing).join('.')}`) ?? '';
    const lines = text.split('\n').map((line) => line.trim());
    return this.reworded(lines.join(' ').trim());
  }

  // What stands in backticks is a value, and stays as it is.
  private reworded(text: string): string {
    return text
      .replaceAll('the metadata `x-organization-id`', 'the header `X-Organization-Id`')
      .replaceAll(/`[^`]*`|[A-Za-z]+(?:_[A-Za-z0-9]+)*/g, (word) => this.words.get(word) ?? word);
  }
}

function fileOf(thing: Described): string {
  return ('file' in thing ? thing.file : thing.parent.file).proto.name;
}

function pathOf(thing: Described): number[] {
  switch (thing.kind) {
    case 'message':
      return thing.parent ? [...pathOf(thing.parent), IN_PARENT.nestedMessage, thing.parent.proto.nestedType.indexOf(thing.proto)] : [IN_FILE.message, thing.file.proto.messageType.indexOf(thing.proto)];
    case 'enum':
      return thing.parent ? [...pathOf(thing.parent), IN_PARENT.nestedEnum, thing.parent.proto.enumType.indexOf(thing.proto)] : [IN_FILE.enum, thing.file.proto.enumType.indexOf(thing.proto)];
    case 'service':
      return [IN_FILE.service, thing.file.proto.service.indexOf(thing.proto)];
    case 'field':
    case 'enum_value':
    case 'rpc':
      break;
  }
  return [...pathOf(thing.parent), IN_PARENT[thing.kind], placeIn(thing)];
}

function placeIn(thing: DescField | DescEnumValue | DescMethod): number {
  if (thing.kind === 'field') return thing.parent.proto.field.indexOf(thing.proto);
  return thing.kind === 'rpc' ? thing.parent.proto.method.indexOf(thing.proto) : thing.parent.proto.value.indexOf(thing.proto);
}
