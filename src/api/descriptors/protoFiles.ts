import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';

// Both `file` of google.protobuf.FileDescriptorSet and `name` of google.protobuf.FileDescriptorProto.
const FIRST_FIELD = 1;

/** Returns the serialized files of a `google.protobuf.FileDescriptorSet` by name. The files are not decoded. */
export function readProtoFiles(set: Uint8Array): ReadonlyMap<string, Buffer> {
  const files = readFirstFields(set).map((bytes): [string, Buffer] => [
    readFirstFields(bytes)[0]?.toString('utf8') ?? '',
    bytes,
  ]);
  return new Map(files);
}

/**
 * Returns the bytes of every occurrence of field 1 of an encoded message; other fields are skipped without decoding
 * them. In a FileDescriptorSet field 1 is each file, in a file it is the name.
 */
function readFirstFields(message: Uint8Array): Buffer[] {
  const reader = new BinaryReader(message);
  const occurrences: Buffer[] = [];
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (number === FIRST_FIELD && wireType === WireType.LengthDelimited) occurrences.push(Buffer.from(reader.bytes()));
    else reader.skip(wireType, number);
  }
  return occurrences;
}
