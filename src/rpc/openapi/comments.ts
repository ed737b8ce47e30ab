import type { DescEnum, DescEnumValue, DescField, DescMessage, DescMethod, DescService } from '@bufbuild/protobuf';
import { status } from '@grpc/grpc-js';
import { STATUS_OF } from '../errorTable';
import type { Descriptors } from '../descriptors';

type Described = DescEnum | DescEnumValue | DescField | DescMessage | DescMethod | DescService;

// The numbers of google.protobuf.FileDescriptorProto and the messages in it, as source info counts them.
const IN_FILE = { message: 4, enum: 5, service: 6 } as const;
const IN_PARENT = { field: 2, nestedMessage: 3, nestedEnum: 4, value: 2, rpc: 2 } as const;

/** The comments of the protos, worded for who reads JSON over HTTP: field, method and status names as they are there. */
export class Comments {
  private readonly texts = new Map<string, string>();
  private readonly words = new Map<string, string>();

  /** Throws when the image was built without comments. */
  constructor(descriptors: Descriptors) {
    for (const file of descriptors.registry.files) {
      for (const { path, leadingComments } of file.proto.sourceCodeInfo?.location ?? []) {
        if (leadingComments) this.texts.set(`${file.proto.name}:${path.join('.')}`, leadingComments);
      }
      for (const message of file.messages) for (const field of message.fields) if (field.name !== field.jsonName) this.words.set(field.name, field.jsonName);
      for (const service of file.services) for (const method of service.methods) this.words.set(method.name, method.localName);
    }
    if (this.texts.size === 0) throw new Error('the descriptor image holds no comments; build it with source info');
    for (const { grpc, http } of Object.values(STATUS_OF)) this.words.set(status[grpc], String(http));
  }

  /** What the protos say of a thing; empty: nothing. */
  of(thing: Described): string {
    const text = this.texts.get(`${fileOf(thing)}:${pathOf(thing).join('.')}`) ?? '';
    const lines = text.split('\n').map((line) => line.trim());
    return this.reworded(lines.join(' ').trim());
  }

  private reworded(text: string): string {
    return text
      .replaceAll('the metadata `x-organization-id`', 'the header `X-Organization-Id`')
      .replaceAll(/[A-Za-z]+(?:_[a-z0-9]+)*(?:_[A-Z]+)*/g, (word) => this.words.get(word) ?? word);
  }
}

function fileOf(thing: Described): string {
  return 'parent' in thing && !('file' in thing) ? (thing.parent as { file: { proto: { name: string } } }).file.proto.name : (thing as { file: { proto: { name: string } } }).file.proto.name;
}

function pathOf(thing: Described): number[] {
  switch (thing.kind) {
    case 'message':
      return thing.parent ? [...pathOf(thing.parent), IN_PARENT.nestedMessage, thing.parent.nestedMessages.indexOf(thing)] : [IN_FILE.message, thing.file.messages.indexOf(thing)];
    case 'enum':
      return thing.parent ? [...pathOf(thing.parent), IN_PARENT.nestedEnum, thing.parent.nestedEnums.indexOf(thing)] : [IN_FILE.enum, thing.file.enums.indexOf(thing)];
    case 'service':
      return [IN_FILE.service, thing.file.services.indexOf(thing)];
    case 'field':
      return [...pathOf(thing.parent), IN_PARENT.field, thing.parent.fields.indexOf(thing)];
    case 'enum_value':
      return [...pathOf(thing.parent), IN_PARENT.value, thing.parent.values.indexOf(thing)];
    case 'rpc':
      return [...pathOf(thing.parent), IN_PARENT.rpc, thing.parent.methods.indexOf(thing)];
  }
}
