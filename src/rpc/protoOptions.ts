import { fromBinary, getOption, ScalarType, type DescExtension, type DescField, type DescMethod } from '@bufbuild/protobuf';
import { BinaryReader } from '@bufbuild/protobuf/wire';

/**
 * What the protos say of a method or a field by this option; `otherwise` where they say nothing. The thousands of them that a start reads took
 * a tenth of it by `getOption` of @bufbuild/protobuf, which makes a message type for each.
 */
export function optionOf<T>(element: DescMethod | DescField, option: DescExtension, otherwise: T): T {
  const given = element.proto.options?.$unknown?.filter(({ no }) => no === option.number) ?? [];
  const [first] = given;
  if (!first) return otherwise;
  const reader = new BinaryReader(first.data);
  if (option.fieldKind === 'message' && given.length === 1) return fromBinary(option.message, reader.bytes()) as T;
  if (option.fieldKind === 'scalar' && option.scalar === ScalarType.STRING && given.length === 1) return reader.string() as T;
  return getOption(element, option) as T;
}
